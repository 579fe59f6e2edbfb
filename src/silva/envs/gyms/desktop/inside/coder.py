"""Runs an agent's pyautogui code: a process forked for each piece, from one that has pyautogui loaded already.

    {"code", "seconds"} ─▶ fork ─▶ a session of its own, an X connection of its own ─▶ {"exit", "output", "late"}

Started by the driver, on a socket given as descriptor 0. The code runs as an ordinary program of the sandbox; what
takes longer than its seconds is killed with all of its process group.
"""

from __future__ import annotations

import contextlib
import io
import os
import select
import signal
import socket
import sys
import time
import traceback
from typing import Any, NoReturn

import pyautogui
import pyscreeze
from helper import serve
from pyautogui import _pyautogui_x11  # pyright: ignore[reportAttributeAccessIssue] - there on Linux alone
from Xlib.display import Display

pyscreeze.GNOMESCREENSHOT_EXISTS = True
"""It asks for that program, and then has PIL take the picture."""
MOST_OUTPUT = 8000
"""Characters of what the code printed that are told, the last ones."""


def run(channel: socket.socket, asked: dict[str, Any]) -> dict[str, Any]:
    """Run a piece of code in a process of its own, and say how it went."""
    code, seconds = str(asked["code"]), float(asked["seconds"])
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        channel.close()
        os.close(reading)
        _child(code, writing)
    os.close(writing)
    try:
        output, late = _until_end(child, reading, time.monotonic() + seconds)
    finally:
        os.close(reading)
    if late:
        _kill(child)
    _, status = os.waitpid(child, 0)
    return {"exit": os.waitstatus_to_exitcode(status), "output": output[-MOST_OUTPUT:], "late": late}


def _until_end(child: int, reading: int, deadline: float) -> tuple[str, bool]:
    kept = bytearray()
    os.set_blocking(reading, False)
    watched = os.pidfd_open(child)
    try:
        while (left := deadline - time.monotonic()) > 0:
            ready, _, _ = select.select([reading, watched], [], [], left)
            if reading in ready:
                data = os.read(reading, 1 << 16)
                kept = (kept + data)[-4 * MOST_OUTPUT :]
                if not data:  # closed: only its end is still waited for
                    select.select([watched], [], [], max(0.0, deadline - time.monotonic()))
                    break
            elif watched in ready:
                break
        ended, _, _ = select.select([watched], [], [], 0)
        return kept.decode(errors="replace"), not ended
    finally:
        os.close(watched)


def _kill(child: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    os.kill(child, signal.SIGKILL)


def _child(code: str, writing: int) -> NoReturn:
    code_exit = 1
    try:
        os.setsid()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(writing, 1)
        os.dup2(writing, 2)
        os.close(writing)
        os.chdir(os.path.expanduser("~"))  # noqa: PTH111 - pathlib is not loaded here
        # The parent's connection cannot be shared: two processes would read each other's replies.
        complaints = io.StringIO()  # that there is no password; none is needed
        with contextlib.redirect_stdout(complaints), contextlib.redirect_stderr(complaints):
            _pyautogui_x11._display = Display(os.environ["DISPLAY"])
        pyautogui.FAILSAFE = False
        program = compile(code, "<action>", "exec")
        exec(program, {"__name__": "__main__", "pyautogui": pyautogui, "time": time})
        code_exit = 0
    except SystemExit as ended:
        code_exit = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException as error:  # noqa: BLE001 - an agent's code may raise anything; it is told in one line
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == "<action>"]
        line = (
            getattr(error, "lineno", None) if isinstance(error, SyntaxError) else (frames[-1].lineno if frames else 0)
        )
        sys.stderr.write(f"{type(error).__name__}: {' '.join(str(error).split())[:400]} (line {line})\n")
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code_exit & 0xFF)


if __name__ == "__main__":
    serve(run)

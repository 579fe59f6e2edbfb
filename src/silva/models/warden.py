"""Watches over one command: a script between us and a server, so that nothing outlives us.

    we ══ pipe ══▶ warden ── session of its own ──▶ command and all it starts

The pipe is the warden's standard input. When it closes, because we want the command to stop or because we are dead
(`kill -9` included), the whole session gets SIGTERM, after the grace SIGKILL, and whoever left the session is killed
too. The warden ends with the command's exit code. Standard library only: it starts in milliseconds.

    python warden.py GRACE_SECONDS COMMAND [ARGUMENT ...]
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def _strays() -> list[int]:
    """Our children: the command, and what it left behind (orphans come to a subreaper)."""
    listed = Path(f"/proc/self/task/{os.getpid()}/children")
    try:
        return [int(pid) for pid in listed.read_text().split()]
    except OSError:  # not every kernel keeps the list
        return []


def _signal_session(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def _end_all(process: subprocess.Popen[bytes], grace: float) -> None:
    _signal_session(process.pid, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(grace)
    _signal_session(process.pid, signal.SIGKILL)
    process.wait()
    until = time.monotonic() + 5.0
    while (strays := _strays()) and time.monotonic() < until:
        for pid in strays:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)


def main(arguments: list[str]) -> int:
    """Watch over the command until it or the pipe ends; gives its exit code (127 where it cannot be started)."""
    grace, command = float(arguments[0]), arguments[1:]
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    ended_read, ended_write = os.pipe()
    os.set_blocking(ended_write, False)
    signal.set_wakeup_fd(ended_write, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(143))
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=lambda: _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL),
        )
    except OSError as fault:
        print(f"cannot start {command[0]}: {fault.strerror}", flush=True)
        return 127
    try:
        while process.poll() is None:
            ready, _, _ = select.select([0, ended_read], [], [])
            if ended_read in ready:
                os.read(ended_read, 4096)
            if 0 in ready and not os.read(0, 4096):
                break
    finally:
        _end_all(process, grace)
    return process.returncode if process.returncode >= 0 else 128 - process.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

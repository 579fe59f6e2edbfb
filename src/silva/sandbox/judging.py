"""Judging what a sandbox's programs left, where running it cannot change the verdict.

    judge's program, followed ─▶ starts a part of itself: goes on
                              ─▶ starts what the judged wrote: a runner in its place ─▶ Broker ─▶ the second room

The second room has the same files and network, but none of the judge's processes, and neither its tests nor where it
writes the verdict. A judge's programs are told by their words (`forkserver.rules`).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from silva.sandbox.spawner import Child

NAME = "silva-second-room"
"""The runner's way to the broker, a name on the sandbox's own network: whoever else comes has something run in the
second room, where he is already."""
RUNNER = """
import json, os, signal, socket, sys
said = {"words": sys.argv[1:], "folder": os.getcwd(), "variables": dict(os.environ)}
given = []
for number in (0, 1, 2):
    try:
        os.fstat(number)
        given.append(number)
    except OSError:
        given.append(os.open(os.devnull, os.O_RDWR))
with socket.socket(socket.AF_UNIX) as way:
    way.connect("\\0" + NAME)
    socket.send_fds(way, [b"r"], given)
    way.sendall(json.dumps(said).encode("utf-8", "surrogateescape"))
    way.shutdown(socket.SHUT_WR)
    code = int(way.makefile().read() or 125)
if code < 0:
    signal.signal(-code, signal.SIG_DFL) if -code not in (9, 19) else None
    os.kill(os.getpid(), -code)
os._exit(code & 255)
"""
GUARD = """
import os, sys
_places = PLACES
def _heard(event, given):
    file = ""
    if event == "exec":
        file = getattr(given[0], "co_filename", "")
    elif event == "import":
        file = given[1]
    elif event == "ctypes.dlopen":
        file = given[0]
    if isinstance(file, str) and os.path.isabs(file) and (os.path.realpath(file) + "/").startswith(_places):
        with open(NOTE, "a") as note:
            note.write(file + "\\n")
        raise ImportError("what is judged is not run by the judge itself: " + file)
sys.addaudithook(_heard)
"""
_MOST = 4 << 20

Started = Callable[[dict[str, Any], list[int]], Awaitable[Child]]
Ended = Callable[[Child], Awaitable[None]]


class Broker:
    """Has programs run in the second room for the runners that ask. Made by `Broker.open`."""

    def __init__(self, start: Started, end: Ended) -> None:
        self._start = start
        self._end = end
        self._tasks: set[asyncio.Task[None]] = set()
        self._listening: socket.socket | None = None

    @classmethod
    def open(cls, listening: socket.socket, start: Started, end: Ended) -> Broker:
        """Answer on a socket that listens already; `start` starts a program, `end` ends one with all it started."""
        broker = cls(start, end)
        listening.setblocking(False)
        broker._listening = listening
        asyncio.get_running_loop().add_reader(listening.fileno(), broker._accept)
        return broker

    async def close(self) -> None:
        """Answer nobody any more."""
        if self._listening is not None:
            asyncio.get_running_loop().remove_reader(self._listening.fileno())
            self._listening.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _accept(self) -> None:
        assert self._listening is not None
        with contextlib.suppress(OSError):
            way, _ = self._listening.accept()
            way.setblocking(False)
            task = asyncio.get_running_loop().create_task(self._serve(way))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _serve(self, way: socket.socket) -> None:
        fds: list[int] = []
        loop = asyncio.get_running_loop()
        with way:
            try:
                await _readable(way)
                _, fds, _, _ = socket.recv_fds(way, 1, 3)
                said = bytearray()
                while part := await loop.sock_recv(way, 1 << 16):
                    said += part
                    if len(said) > _MOST:
                        return
                asked = json.loads(said.decode("utf-8", "surrogateescape"))
                child = await self._start(asked, fds)
            except (OSError, ValueError, LookupError, TypeError):
                return
            finally:
                for fd in fds:
                    os.close(fd)
            gone = asyncio.ensure_future(loop.run_in_executor(None, _hung_up, way.dup()))
            try:
                await asyncio.wait({child.ended, gone}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                if not child.ended.done():
                    await asyncio.shield(self._end(child))
            with contextlib.suppress(OSError):
                way.send(str((await child.ended).code).encode())
                way.shutdown(socket.SHUT_RDWR)


async def _readable(way: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    ready = loop.create_future()
    loop.add_reader(way.fileno(), lambda: ready.done() or ready.set_result(None))
    try:
        await ready
    finally:
        loop.remove_reader(way.fileno())


def _hung_up(way: socket.socket) -> None:
    """Wait until the runner at the other end is gone."""
    import select

    poll = select.poll()
    poll.register(way.fileno(), select.POLLHUP)
    with way:
        poll.poll()


def prepared(folder: Path, tests: str, logs: str, places: tuple[str, ...]) -> None:
    """Write what a judge's programs need of ours: the runner, and the guard of its Pythons. Raises OSError."""
    (folder / "run.py").write_text(f"NAME = {NAME!r}\n{RUNNER}")
    note = f"{logs}/.imported"
    guarded = tuple(f"{place}/" for place in places)
    (folder / "sitecustomize.py").write_text(f"NOTE = {note!r}\nPLACES = {guarded!r}\n{GUARD}")


def show(asked: dict[str, Any], tests: Path, place: str, shown: Path) -> None:
    """Put the files of the tests that a program's words name where the second room sees them: its input. Not what the
    judge compares with."""
    for word in asked["words"]:
        path = str(word).partition("=")[2] or str(word)
        if not path.startswith(f"{place}/"):
            continue
        source = Path(os.path.normpath(f"{tests}/{path.removeprefix(place)}"))
        target = shown / source.relative_to(tests) if source.is_relative_to(tests) else None
        if target is None or target.exists() or not source.exists():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(source, target) if source.is_dir() else shutil.copy(source, target)

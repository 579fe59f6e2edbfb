"""A program's process: started, given its prompt, heard to its end, and ended with everything that it started.

Confined ─▶ executed ─▶ … its output, the last of it kept … ─▶ it ends, or is cancelled ─▶ `end` ─▶ Heard
     └─▶ Unstartable: what it was given, or what it is, cannot be executed
"""

from __future__ import annotations

import asyncio
import errno
import os
from pathlib import Path
from typing import cast

from silva.sandbox import Confined, end
from silva.tree import Boundary, Failure, Record

MOST_OUTPUT = 1 << 20
"""Bytes of a program's output that are kept; the rest is read and dropped."""
REST_SECONDS = 2.0
"""How long what it had written is read once it has ended, where somebody out of reach holds its output open."""

_SHORT = (errno.EAGAIN, errno.EMFILE, errno.ENFILE, errno.ENOMEM)


class Unstartable(Exception):
    """A program that could not be started; `failure` says why."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class Heard(Record, frozen=True, kw_only=True):
    """How a program ended, and what it wrote."""

    code: int
    output: str
    complaint: str


async def executed(ready: Confined, folder: Path, given: str) -> Heard:
    """Run a command to its end; whatever happens, nothing of it is left running.

    Args:
        ready: the command.
        folder: where it starts.
        given: what it finds on standard input.

    Raises:
        Unstartable: it, or what it was given, cannot be executed.
    """
    hearing = _Hearing()
    try:
        written = given.encode()
        transport, _ = await asyncio.get_running_loop().subprocess_exec(
            lambda: hearing, *ready.arguments, cwd=folder, env=ready.variables, start_new_session=True
        )
    except (OSError, ValueError) as error:
        raise Unstartable(_why(error, ready)) from error
    pid = transport.get_pid()
    stdin = cast(asyncio.WriteTransport, transport.get_pipe_transport(0))
    try:
        stdin.write(written)
        stdin.write_eof()
        await hearing.ended.wait()
    finally:
        # Its children too, also where it ended by itself: they may hold its output open.
        await asyncio.shield(asyncio.to_thread(end, ready, pid))
        await hearing.rest(REST_SECONDS)
        if stdin.get_write_buffer_size():
            stdin.abort()
        transport.close()
        await hearing.ended.wait()
    return Heard(code=transport.get_returncode() or 0, output=hearing.text(1), complaint=hearing.text(2))


class _Hearing(asyncio.SubprocessProtocol):
    """Takes what a process writes. Its end is told apart from the end of its output, which others may hold open."""

    def __init__(self) -> None:
        self.ended = asyncio.Event()
        self._kept: dict[int, list[bytes]] = {1: [], 2: []}
        self._sizes = {1: 0, 2: 0}
        self._open = {1, 2}
        self._closed = asyncio.Event()

    def pipe_data_received(self, fd: int, data: bytes | str) -> None:
        """It wrote something."""
        assert isinstance(data, bytes)
        kept = self._kept[fd]
        kept.append(data)
        self._sizes[fd] += len(data)
        while self._sizes[fd] - len(kept[0]) > MOST_OUTPUT:
            self._sizes[fd] -= len(kept.pop(0))

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        """Nobody holds one of its pipes any more."""
        self._open.discard(fd)
        if not self._open:
            self._closed.set()

    def process_exited(self) -> None:
        """It has ended."""
        self.ended.set()

    async def rest(self, seconds: float) -> None:
        """Wait for what was written and not read yet."""
        try:
            async with asyncio.timeout(seconds):
                await self._closed.wait()
        except TimeoutError:
            return

    def text(self, fd: int) -> str:
        """The last of what it wrote there."""
        return b"".join(self._kept[fd])[-MOST_OUTPUT:].decode("utf-8", "replace")


def _why(error: OSError | ValueError, ready: Confined) -> Failure:
    name = Path(ready.command).name
    code = error.errno if isinstance(error, OSError) else None
    if code in _SHORT:
        what = f"the program {name} cannot be started now: {os.strerror(code or 0)}"
        return Failure(boundary=Boundary.INFRASTRUCTURE, code="program.resources", message=what, retryable=True)
    if code == errno.E2BIG:
        why = "its prompt is longer than an argument may be: leave {prompt} out of the command, then it is given on "
        why += "standard input"
    elif code == errno.ENOEXEC:
        why = "it is neither a binary of this machine nor a script that begins with #!"
    elif code == errno.ENOENT:
        why = "it, or the interpreter that it names, is not there"
    else:
        why = str(error) if code is None else os.strerror(code)
    return Failure(boundary=Boundary.AGENT, code="agent.start", message=f"the program {name} cannot be started: {why}")

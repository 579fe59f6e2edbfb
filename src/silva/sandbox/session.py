"""A command on a terminal of its own that one talks with over many turns.

Sandbox.session ─▶ Session: send · read since · wait until idle · resize · kill
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import select
import signal
import struct
import termios
import time
from collections.abc import Awaitable, Callable

from silva.errors import UsageError
from silva.sandbox.kept import Kept
from silva.sandbox.spawner import Child, Spawner
from silva.tree import Record

_SETTLED_MS = 3
_TIOCGPTPEER = 0x5441
_KEPT = 1 << 20
"""Bytes of output a session remembers; a reader that comes later is told what it missed."""


class Past(Record, frozen=True, kw_only=True):
    """What a process snapshot says of a session besides its processes.

    Attributes:
        id: its name in the sandbox.
        inner: the process at the terminal, by its id inside.
        pipe: the pipe by which that says its exit code.
        position: how much it had printed.
        kept: the last of it.
    """

    id: str
    inner: int
    pipe: int
    position: int = 0
    kept: bytes = b""


class Session:
    """One terminal and the program on it.

    Attributes:
        id: its name in the sandbox.
        position: how many bytes it has printed so far.
        missed_before: output before this position is no longer kept.
    """

    def __init__(
        self,
        id: str,
        fd: int,
        child: Child,
        spawner: Spawner,
        end: Callable[[Child], Awaitable[None]],
        past: Past | None = None,
    ) -> None:
        os.set_blocking(fd, False)
        self.id = id
        self._fd = fd
        self._child = child
        self._spawner = spawner
        self._end = end
        self._loop = asyncio.get_running_loop()
        self._kept = bytearray() if past is None else bytearray(past.kept)
        self._last = time.monotonic()
        self._news = asyncio.Event()
        self._open = True
        self._peer = -1
        self.position = 0 if past is None else past.position
        self.missed_before = self.position - len(self._kept)
        self._loop.add_reader(fd, self._read)

    @property
    def alive(self) -> bool:
        """Whether its program still runs."""
        return not self._child.ended.done()

    @property
    def open(self) -> bool:
        """Whether some program still has the terminal."""
        return self._open

    @property
    def code(self) -> int | None:
        """Its program's exit code (minus a signal's number); None while it runs."""
        return self._child.ended.result().code if self._child.ended.done() else None

    @property
    def idle(self) -> float:
        """Seconds since it printed or was sent something."""
        return time.monotonic() - self._last

    @property
    def child(self) -> Child:
        """The process at the terminal."""
        return self._child

    async def send(self, data: bytes | str) -> None:
        """Type something. A line ends with a newline; Ctrl-C is byte 3.

        Raises:
            UsageError: the program has ended.
        """
        rest = memoryview(data.encode() if isinstance(data, str) else data)
        self._last = time.monotonic()
        while rest:
            if not self._open:
                raise UsageError(f"session {self.id} has ended; open another")
            try:
                rest = rest[os.write(self._fd, rest[:4096]) :]
            except BlockingIOError:
                await asyncio.sleep(0.002)  # the program does not read; its output is taken meanwhile
            except OSError:
                raise UsageError(f"session {self.id} has ended; open another") from None

    def read(self, since: int = 0) -> tuple[bytes, int]:
        """What it printed after position `since`, as far as it is kept, and the position reached."""
        start = max(since, self.missed_before) - self.missed_before
        return bytes(self._kept[start:]), self.position

    async def until_idle(self, quiet: float = 0.2, within: float = 10.0) -> bool:
        """Wait until nothing has been printed for `quiet` seconds, or the end; False after `within` seconds."""
        until = time.monotonic() + within
        while self._open and self.idle < quiet:
            left = until - time.monotonic()
            if left <= 0:
                return False
            await asyncio.sleep(min(left, quiet - self.idle + 0.001))
        return True

    async def until(self, text: bytes | str, since: int = 0, within: float = 10.0) -> bool:
        """Wait until `text` has been printed after `since`; False after `within` seconds, or at the end without it."""
        wanted = text.encode() if isinstance(text, str) else text
        deadline = time.monotonic() + within
        while True:
            self._news.clear()
            if wanted in self.read(since)[0]:
                return True
            left = deadline - time.monotonic()
            if left <= 0 or not self._open:
                return False
            try:
                await asyncio.wait_for(self._news.wait(), left)
            except TimeoutError:
                continue

    async def more(self, since: int) -> tuple[bytes, int]:
        """What is printed after position `since`, as soon as there is some; nothing when the terminal is closed."""
        while True:
            self._news.clear()
            data, position = self.read(since)
            if data or not self._open:
                return data, position
            await self._news.wait()

    async def ended(self, within: float = 10.0) -> bool:
        """Wait until the program has ended (its terminal may close a moment before); False after `within` seconds."""
        done, _ = await asyncio.wait([self._child.ended], timeout=within)
        return bool(done)

    def resize(self, rows: int, columns: int) -> None:
        """Tell the program how large the terminal is."""
        if self._open:
            fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    async def interrupt(self) -> None:
        """Press Ctrl-C."""
        await self.send(b"\x03")

    async def kill(self) -> int:
        """End the program and everything it started; its exit code."""
        if self.alive:
            await self._end(self._child)
            if isinstance(self._child, Kept):
                self._child.signal(signal.SIGKILL)
            else:
                await self._spawner.signal(self._child, signal.SIGKILL)
        ended = await self._child.ended
        self.close()
        return ended.code

    def hold(self) -> Past | None:
        """Read no more until `go_on`, and say how far one was; None where no checkpoint can take it along."""
        if not self._open or not isinstance(self._child, Kept) or not self.alive:
            return None
        self._stop()
        quiet = select.poll()
        quiet.register(self._fd, select.POLLIN)
        while self._open and quiet.poll(_SETTLED_MS):
            self._read()
        if not self._open:
            return None
        self._loop.remove_reader(self._fd)
        return Past(
            id=self.id,
            inner=self._child.inner,
            pipe=self._child.pipe,
            position=self.position,
            kept=bytes(self._kept),
        )

    def go_on(self) -> None:
        """Read again."""
        if self._open:
            self._loop.add_reader(self._fd, self._read)
        if self._peer >= 0:
            with contextlib.suppress(termios.error):
                termios.tcflow(self._peer, termios.TCOON)
            os.close(self._peer)
            self._peer = -1

    def _stop(self) -> None:
        """Have programs wait that write to the terminal, as Ctrl-S does: what it holds is all read then. What it held
        at a checkpoint would be written into it anew at the restore, and that waits without end where it is much."""
        with contextlib.suppress(OSError, termios.error):
            self._peer = fcntl.ioctl(self._fd, _TIOCGPTPEER, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
            termios.tcflow(self._peer, termios.TCOOFF)

    def close(self) -> None:
        """Let go of the terminal; what was printed stays readable."""
        if self._open:
            self._open = False
            self._loop.remove_reader(self._fd)
            os.close(self._fd)
            self._news.set()

    def _read(self) -> None:
        try:
            data = os.read(self._fd, 1 << 16)
        except BlockingIOError:
            return
        except OSError:
            data = b""  # every program that had the terminal open has ended
        if not data:
            self.close()
            return
        self._last = time.monotonic()
        self.position += len(data)
        self._kept += data
        if len(self._kept) > _KEPT:
            del self._kept[: len(self._kept) - _KEPT]
        self.missed_before = self.position - len(self._kept)
        self._news.set()

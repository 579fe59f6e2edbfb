"""Reading what a command prints, without ever holding more of it than was asked."""

from __future__ import annotations

import asyncio
import os
import time
from typing import IO

_CHUNK = 1 << 16


class Capture:
    """One stream of a command: its first and last bytes, and how many there were.

    Reading goes on after `keep` bytes, so that a command that prints without end is not held up by it; it stops at
    `flood`, and then `flooded` is set. With `into`, all of it goes there instead.
    """

    def __init__(self, fd: int, keep: int, flood: int, flooded: asyncio.Event, into: IO[bytes] | None = None) -> None:
        os.set_blocking(fd, False)
        self._fd = fd
        self._half = keep // 2
        self._flood = flood
        self._flooded = flooded
        self._into = into
        self._head = bytearray()
        self._tail = bytearray()
        self._loop = asyncio.get_running_loop()
        self.total = 0
        self.first_at: float | None = None
        self.closed: asyncio.Future[None] = self._loop.create_future()
        self._loop.add_reader(fd, self._read)

    @property
    def kept(self) -> bytes:
        """The first and the last half of what was printed; whole where it fits."""
        if self._into is not None:
            return b""
        dropped = self.total - len(self._head) - len(self._tail)
        if dropped <= 0:
            return bytes(self._head + self._tail)
        return bytes(self._head) + f"\n[… {dropped:,} bytes left out …]\n".encode() + bytes(self._tail)

    def close(self) -> None:
        """Take what lies ready and stop."""
        if not self.closed.done():
            self._read()
        if not self.closed.done():
            self._end()

    def _read(self) -> None:
        for _ in range(16):  # then others get their turn
            try:
                data = os.read(self._fd, _CHUNK)
            except BlockingIOError:
                return
            except OSError:
                data = b""  # a terminal whose other end is closed
            if not data:
                self._end()
                return
            if self.first_at is None:
                self.first_at = time.perf_counter()
            self.total += len(data)
            self._keep(data)
            if self.total > self._flood:
                self._flooded.set()
                self._end()
                return

    def _keep(self, data: bytes) -> None:
        if self._into is not None:
            self._into.write(data)
            return
        room = self._half - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if data:
            self._tail += data
            if len(self._tail) > self._half:
                del self._tail[: len(self._tail) - self._half]

    def _end(self) -> None:
        self._loop.remove_reader(self._fd)
        os.close(self._fd)
        self.closed.set_result(None)


class Feed:
    """Standard input of a command, written as fast as it reads."""

    def __init__(self, fd: int, data: bytes) -> None:
        os.set_blocking(fd, False)
        self._fd = fd
        self._data = memoryview(data)
        self._loop = asyncio.get_running_loop()
        self._open = True
        self._loop.add_writer(fd, self._write)

    def close(self) -> None:
        """Close it, whether all was read or not."""
        if self._open:
            self._open = False
            self._loop.remove_writer(self._fd)
            os.close(self._fd)

    def _write(self) -> None:
        try:
            while self._data:
                self._data = self._data[os.write(self._fd, self._data[:_CHUNK]) :]
        except BlockingIOError:
            return
        except OSError:
            pass  # it reads no further
        self.close()

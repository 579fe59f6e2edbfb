"""Which of some files were opened, as the kernel tells it (inotify)."""

from __future__ import annotations

import ctypes
import os
import struct

_IN_OPEN = 0x20
_NONBLOCKING = os.O_NONBLOCK | os.O_CLOEXEC


class Watch:
    """Files looked after; whoever opens one is noticed, whatever program it is."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._fd: int = self._libc.inotify_init1(_NONBLOCKING)
        self._names: dict[int, str] = {}

    def add(self, path: str) -> None:
        """Look after a file from now on. Raises OSError."""
        number = self._libc.inotify_add_watch(self._fd, os.fsencode(path), _IN_OPEN)
        if number < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), path)
        self._names[number] = path

    def opened(self) -> list[str]:
        """What was opened since it was asked last."""
        found: list[str] = []
        while True:
            try:
                data = os.read(self._fd, 1 << 16)
            except BlockingIOError:
                return found
            at = 0
            while at < len(data):
                number, mask, _, length = struct.unpack_from("iIII", data, at)
                at += 16 + length
                path = self._names.get(number)
                if path is not None and mask & _IN_OPEN and path not in found:
                    found.append(path)

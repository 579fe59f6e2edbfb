"""What happens to files that are looked after, as the kernel tells it (inotify): nothing inside can take it back.

add(file) ─▶ opened, removed      expect(file that is not there) ─▶ made      seen() ─▶ all of it since the last time
"""

from __future__ import annotations

import ctypes
import os
import struct

_IN_OPEN, _IN_CREATE, _IN_MOVED_TO = 0x20, 0x100, 0x80
_IN_DELETE_SELF, _IN_MOVE_SELF = 0x400, 0x800
_IN_Q_OVERFLOW, _IN_UNMOUNT = 0x4000, 0x2000
_NONBLOCKING = os.O_NONBLOCK | os.O_CLOEXEC


class Watch:
    """Files looked after; whoever does something to one is noticed, whatever program it is and under whatever name."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._fd: int = self._libc.inotify_init1(_NONBLOCKING)
        self._files: dict[int, str] = {}
        self._folders: dict[int, dict[bytes, str]] = {}

    def add(self, path: str) -> None:
        """Look after a file from now on. Raises OSError."""
        self._files[self._begun(path, _IN_OPEN | _IN_DELETE_SELF)] = path

    def expect(self, path: str) -> None:
        """Notice when this file is made, which is not there; its folder is made. Raises OSError."""
        folder, _, name = path.rpartition("/")
        os.makedirs(folder, exist_ok=True)  # noqa: PTH103
        number = self._begun(folder, _IN_CREATE | _IN_MOVED_TO | _IN_DELETE_SELF | _IN_MOVE_SELF)
        self._folders.setdefault(number, {})[os.fsencode(name)] = path

    def seen(self) -> dict[str, list[str]]:
        """What happened since it was asked last: `opened`, `removed`, `made`, and `lost`, what is not seen any more."""
        found: dict[str, list[str]] = {"opened": [], "removed": [], "made": [], "lost": []}

        def note(what: str, path: str) -> None:
            if path not in found[what]:
                found[what].append(path)

        for number, mask, name in self._events():
            if mask & _IN_Q_OVERFLOW:
                note("lost", "events")
            if number in self._files:
                if mask & _IN_OPEN:
                    note("opened", self._files[number])
                if mask & _IN_DELETE_SELF:
                    note("removed", self._files[number])
            if number in self._folders:
                known = self._folders[number]
                if name in known and mask & (_IN_CREATE | _IN_MOVED_TO):
                    note("made", known[name])
                if mask & (_IN_DELETE_SELF | _IN_MOVE_SELF | _IN_UNMOUNT):
                    for path in known.values():
                        note("lost", path)
        return found

    def _begun(self, path: str, mask: int) -> int:
        number = self._libc.inotify_add_watch(self._fd, os.fsencode(path), mask)
        if number < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), path)
        return number

    def _events(self) -> list[tuple[int, int, bytes]]:
        events: list[tuple[int, int, bytes]] = []
        while True:
            try:
                data = os.read(self._fd, 1 << 16)
            except BlockingIOError:
                return events
            at = 0
            while at < len(data):
                number, mask, _, length = struct.unpack_from("iIII", data, at)
                events.append((number, mask, data[at + 16 : at + 16 + length].rstrip(b"\0")))
                at += 16 + length

"""The digest of a layer, and whether it is still what was kept.

    Compared.same(layer, digest): read whole and compared the first time; after that, whether anything in it was touched

The kernel gives every change of a file or folder a time (ctime) that no program can set: where all of them are what
they were when the contents were compared, the contents are.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path


class Compared:
    """The layers that this process has compared. Safe to use from several threads."""

    def __init__(self) -> None:
        self._touched: dict[tuple[str, str], bytes] = {}

    def same(self, place: Path, digest: str) -> bool:
        """Whether what a folder holds has this digest."""
        touched = _touched(place)
        if self._touched.get((str(place), digest)) == touched:
            return True
        if digest_of(place)[0] != digest:
            return False
        self._touched[str(place), digest] = touched
        return True


def _touched(folder: Path) -> bytes:
    """When everything in a folder, and which file it was, was changed last."""
    about = folder.stat()
    found = hashlib.blake2b(f"{about.st_ino} {about.st_mode} {about.st_ctime_ns}\0".encode(), digest_size=16)
    for name, _, about in _walked(folder):
        if about is not None:
            said = f"{name}\0{about.st_ino} {about.st_mode} {about.st_size} {about.st_ctime_ns}\0"
            found.update(said.encode(errors="surrogateescape"))
    return found.digest()


def digest_of(folder: Path) -> tuple[str, int]:
    """The digest of a folder's whole content, and the bytes of its files."""
    found = hashlib.blake2b(digest_size=16)
    size = 0
    for name, path, about in _walked(folder):
        if about is None:
            found.update(b"unreadable\0")
            continue
        # All whiteouts of one mount are one file: its mode is nobody's.
        mode = stat.S_IFMT(about.st_mode) if stat.S_ISCHR(about.st_mode) else about.st_mode
        found.update(f"{name}\0{mode:o}\0".encode(errors="surrogateescape"))
        if stat.S_ISDIR(about.st_mode):
            found.update(b"opaque" if opaque(path) else b"")
        elif stat.S_ISLNK(about.st_mode):
            found.update(os.fsencode(os.readlink(path)))  # noqa: PTH115 - bytes of any kind
        elif stat.S_ISREG(about.st_mode):
            size += about.st_size
            found.update(f"{about.st_size}\0".encode())
            _content(path, found)
        else:
            found.update(f"{about.st_rdev}\0".encode())
    return found.hexdigest(), size


def _walked(folder: Path) -> Iterator[tuple[str, str, os.stat_result | None]]:
    """Everything in a folder, always in the same order: its name below it, its path, and what the kernel says of it;
    None for a folder that may not be read, at the place of what it holds."""
    waiting = [(str(folder), "")]
    while waiting:
        place, prefix = waiting.pop()
        try:
            with os.scandir(place) as entries:
                children = sorted(entries, key=lambda entry: entry.name)
        except PermissionError:
            yield prefix, place, None
            continue
        for entry in children:
            about = entry.stat(follow_symlinks=False)
            name = f"{prefix}/{entry.name}"
            if stat.S_ISDIR(about.st_mode):
                waiting.append((entry.path, name))
            yield name, entry.path, about


def _content(path: str, found: hashlib.blake2b) -> None:
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - many small ones
            while part := file.read(1 << 20):
                found.update(part)
    except PermissionError:
        found.update(b"unreadable\0")


def opaque(path: str) -> bool:
    """Whether a folder of a layer hides what lies below it."""
    try:
        return os.getxattr(path, "user.overlay.opaque") == b"y"
    except OSError:
        return False

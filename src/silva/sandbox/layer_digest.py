"""The digest of a layer, and whether it is still what was kept.

    Compared.same(layer, digest): read whole and compared the first time; after that, whether anything in it was touched

The kernel gives every change of a file or folder a time (ctime) that no program can set: where all of them are what
they were when the contents were compared, the contents are.

A digest is over names, kinds, modes, owners, extended attributes, which names are one file, links and contents. Holes
of a file are not read: a block of zeros and a hole are the same content, said by their length.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
from pathlib import Path
from typing import NamedTuple

from silva.sandbox.walk import readable, walked

_WHOLE = "2:"
"""What digests begin with that cover owners, attributes and hard links; those of older checkpoints do not."""
_BLOCK = 1 << 20
_NOTHING = bytes(_BLOCK)
MARKS = "user.overlay."
"""What the names of attributes begin with by which an overlay knows what is deleted below."""


class Digest(NamedTuple):
    """A folder's digest; the bytes of its files; which of its own folders (the first word of a path) hold what an
    overlay would take for its own marks: devices 0, 0 and attributes of its names."""

    value: str
    size: int
    marked: frozenset[str]


class Compared:
    """The layers that this process has compared. Safe to use from several threads."""

    def __init__(self) -> None:
        self._touched: dict[tuple[str, str], bytes] = {}

    def same(self, place: Path, digest: str) -> bool:
        """Whether what a folder holds has this digest."""
        touched = _touched(place)
        if self._touched.get((str(place), digest)) == touched:
            return True
        if digest_of(place, whole=digest.startswith(_WHOLE)).value != digest:
            return False
        self._touched[str(place), digest] = _touched(place)  # anew: reading what may not be read changes its time
        return True


def _touched(folder: Path) -> bytes:
    """When everything in a folder, and which file it was, was changed last."""
    about = folder.stat()
    found = hashlib.blake2b(f"{about.st_ino} {about.st_mode} {about.st_ctime_ns}\0".encode(), digest_size=16)
    for name, _, about in walked(folder):
        said = f"{name}\0{about.st_ino} {about.st_mode} {about.st_size} {about.st_ctime_ns}\0"
        found.update(said.encode(errors="surrogateescape"))
    return found.digest()


def standing(folder: Path) -> str:
    """What tells that a folder of somebody's is the same as at another time, without reading it: names, modes, sizes
    and times of its files."""
    found = hashlib.blake2b(digest_size=12)
    for name, path, about in walked(folder):
        when = 0 if stat.S_ISDIR(about.st_mode) else about.st_mtime_ns
        link = os.readlink(path) if stat.S_ISLNK(about.st_mode) else ""  # noqa: PTH115
        size = 0 if stat.S_ISDIR(about.st_mode) else about.st_size
        found.update(f"{name}\0{about.st_mode:o} {size} {when} {link}\0".encode(errors="surrogateescape"))
    return found.hexdigest()


def digest_of(folder: Path, *, whole: bool = True) -> Digest:
    """The digest of a folder's content. `whole`: with owners, extended attributes and hard links.

    Raises:
        OSError: something cannot be read.
    """
    found = hashlib.blake2b(digest_size=16)
    size = 0
    marked: set[str] = set()
    names: dict[tuple[int, int], str] = {}
    for name, path, about in walked(folder):
        # All whiteouts of one mount are one file: its mode and owner are nobody's.
        device = stat.S_ISCHR(about.st_mode)
        mode = stat.S_IFMT(about.st_mode) if device else about.st_mode
        found.update(f"{name}\0{mode:o}\0".encode(errors="surrogateescape"))
        if device and about.st_rdev == 0:
            marked.add(name.split("/")[1])
        if whole and not device:
            found.update(f"{about.st_uid} {about.st_gid}\0".encode())
            attributes = extended(path)
            if any(key.startswith(MARKS) for key in attributes):
                marked.add(name.split("/")[1])
            for key in sorted(attributes):
                # What the kernel notes of where a file came from is of one mount alone.
                if not key.startswith(MARKS) or key == f"{MARKS}opaque":
                    found.update(key.encode(errors="surrogateescape") + b"=" + attributes[key] + b"\0")
            if about.st_nlink > 1 and not stat.S_ISDIR(about.st_mode):
                first = names.setdefault((about.st_dev, about.st_ino), name)
                if first != name:
                    found.update(f"is {first}\0".encode(errors="surrogateescape"))
                    continue
        if stat.S_ISDIR(about.st_mode):
            found.update(b"opaque" if opaque(path) else b"")
        elif stat.S_ISLNK(about.st_mode):
            found.update(os.fsencode(os.readlink(path)))  # noqa: PTH115 - bytes of any kind
        elif stat.S_ISREG(about.st_mode):
            size += about.st_size
            found.update(f"{about.st_size}\0".encode())
            found.update(content(path) if whole else b"")
            if not whole:
                _content_before(path, found)
        else:
            found.update(f"{about.st_rdev}\0".encode())
    return Digest((_WHOLE if whole else "") + found.hexdigest(), size, frozenset(marked))


def extended(path: str) -> dict[str, bytes]:
    """A file's extended attributes of users; links have none. Raises OSError."""
    found: dict[str, bytes] = {}
    with contextlib.suppress(FileNotFoundError):
        try:
            names = os.listxattr(path, follow_symlinks=False)
        except OSError as error:
            if error.errno == errno.EOPNOTSUPP:
                return {}
            raise
        for name in names:
            if name.startswith("user."):
                with readable(path):
                    found[name] = os.getxattr(path, name, follow_symlinks=False)
    return found


def content(path: str) -> bytes:
    """The digest of a file's content: its blocks of data, and the length of what is nothing between them.

    Raises:
        OSError: it cannot be read.
    """
    found = hashlib.blake2b(digest_size=16)
    with readable(path), open(path, "rb", buffering=0) as file:  # noqa: PTH123 - many small ones
        fd = file.fileno()
        size, at, nothing = os.fstat(fd).st_size, 0, 0
        while at < size:
            start, _ = extent(fd, at, size)
            start -= start % _BLOCK
            if start > at:
                nothing += start - at
                at = start
                continue
            part = os.pread(fd, _BLOCK, at)
            if not part:
                break  # it became shorter meanwhile
            at += len(part)
            if part == _NOTHING[: len(part)]:
                nothing += len(part)
                continue
            if nothing:
                found.update(f"\0{nothing}\0".encode())
                nothing = 0
            found.update(f"{len(part)}\0".encode() + part)
    return found.digest()


def extent(fd: int, at: int, size: int) -> tuple[int, int]:
    """Where the next data of a file begins and ends; both its size where there is none."""
    try:
        start = os.lseek(fd, at, os.SEEK_DATA)
        return start, os.lseek(fd, start, os.SEEK_HOLE)
    except OSError as error:
        return (size, size) if error.errno == errno.ENXIO else (at, size)  # or a file system that does not tell


def _content_before(path: str, found: hashlib.blake2b) -> None:
    """A file's content as digests without `_WHOLE` have it."""
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

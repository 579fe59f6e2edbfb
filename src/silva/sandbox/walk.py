"""Everything below a folder that a sandbox wrote, whatever it did to its names and modes.

    walked(folder) ─▶ (name below it, path to reach it by, what the kernel says of it) … always in the same order

A path is longer than the kernel takes where folders are nested deep enough: from there on it leads over a descriptor
(`/proc/self/fd/N/…`) and is good until the next one is asked for. What its own user may not read is made readable for
as long as it is read, where it belongs to who reads.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator

_LONGEST = 3000
"""Bytes of a path before it goes over a descriptor: the kernel takes 4,095, and a name has up to 255."""
_MOST_STEPS = 64
"""Descriptors on the way to one file."""
_LEAST = 4096


class TooDeep(OSError):
    """Folders are nested deeper than anyone follows."""

    def __init__(self) -> None:
        super().__init__(
            errno.ENAMETOOLONG, f"folders are nested deeper than {_MOST_STEPS * _LONGEST:,} characters of path"
        )


def walked(folder: str | os.PathLike[str]) -> Iterator[tuple[str, str, os.stat_result]]:
    """Everything in a folder, a folder before what it holds.

    Raises:
        TooDeep: folders are nested too deeply.
        OSError: something cannot be read, and belongs to somebody else.
    """
    yield from _below(os.fspath(folder), "", 0)


def _below(folder: str, prefix: str, steps: int) -> Iterator[tuple[str, str, os.stat_result]]:
    """What one descriptor reaches: on a stack of its own, for folders may be nested deeper than calls."""
    waiting = [(folder, prefix)]
    while waiting:
        place, prefix = waiting.pop()
        if len(os.fsencode(place)) > _LONGEST:
            if steps >= _MOST_STEPS:
                raise TooDeep
            fd = os.open(place, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                yield from _below(f"/proc/self/fd/{fd}", prefix, steps + 1)
            finally:
                os.close(fd)
            continue
        for entry in _entries(place):
            with contextlib.suppress(FileNotFoundError):  # who looks at a running sandbox sees things go
                about = entry.stat(follow_symlinks=False)
                name = f"{prefix}/{entry.name}"
                if stat.S_ISDIR(about.st_mode):
                    waiting.append((entry.path, name))
                yield name, entry.path, about


def _entries(place: str) -> list[os.DirEntry[str]]:
    with contextlib.suppress(FileNotFoundError), readable(place, 0o500), os.scandir(place) as entries:
        return sorted(entries, key=lambda entry: entry.name)
    return []


@contextlib.contextmanager
def readable(path: str, bits: int = 0o400) -> Iterator[None]:
    """Have these bits of a file's or folder's mode set meanwhile, where its own user has taken them away and that is
    who reads. Raises OSError."""
    if os.geteuid() == 0:
        yield
        return
    about = os.stat(path)  # noqa: PTH116 - thousands of them
    mode = stat.S_IMODE(about.st_mode)
    if mode & bits == bits or about.st_uid != os.geteuid():
        yield
        return
    os.chmod(path, mode | bits)  # noqa: PTH101
    try:
        yield
    finally:
        os.chmod(path, mode)  # noqa: PTH101


def blocks(folder: str | os.PathLike[str]) -> int:
    """Bytes on disk of all that is below a folder. A file of several names counts once; everything counts as one page
    at least, for names and inodes run out too. Raises as `walked`."""
    total = 0
    seen: set[tuple[int, int]] = set()
    for _, _, about in walked(folder):
        if about.st_nlink > 1 and not stat.S_ISDIR(about.st_mode):
            if (about.st_dev, about.st_ino) in seen:
                continue
            seen.add((about.st_dev, about.st_ino))
        total += max(about.st_blocks * 512, _LEAST)
    return total

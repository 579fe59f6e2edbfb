"""A program's home, `.home` in its folder, as this process looks at it: the program may have put anything there, and no
link of its making is followed.

    cleared ─▶ (the program, and its answer) ─▶ answer
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

HOME = ".home"
ANSWER = "answer"
MOST = 1 << 20
"""Bytes of an answer that are read."""

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def cleared(folder: Path) -> None:
    """See to it that there is a home, the folder's own, without an answer in it.

    Raises:
        OSError: what was put there cannot be removed.
    """
    with _opened(folder) as place:
        try:
            os.mkdir(HOME, dir_fd=place)
        except FileExistsError:
            if not stat.S_ISDIR(os.stat(HOME, dir_fd=place, follow_symlinks=False).st_mode):
                os.unlink(HOME, dir_fd=place)
                os.mkdir(HOME, dir_fd=place)
        with _opened(HOME, place) as home:
            try:
                os.unlink(ANSWER, dir_fd=home)
            except FileNotFoundError:
                return
            except (IsADirectoryError, PermissionError):
                shutil.rmtree(ANSWER, dir_fd=home)


def answer(folder: Path) -> str:
    """What a program wrote into its answer; "" where there is no such file in its home."""
    try:
        with _opened(folder) as place, _opened(HOME, place) as home:
            # A pipe without a writer would be waited for.
            file = os.open(ANSWER, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=home)
            with open(file, "rb") as read:  # noqa: PTH123 - by its descriptor
                if not stat.S_ISREG(os.fstat(file).st_mode):
                    return ""
                return read.read(MOST).decode("utf-8", "replace").strip()
    except OSError:
        return ""


@contextlib.contextmanager
def _opened(path: Path | str, within: int | None = None) -> Iterator[int]:
    descriptor = os.open(path, _FOLDER, dir_fd=within)
    try:
        yield descriptor
    finally:
        os.close(descriptor)

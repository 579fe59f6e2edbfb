"""A program's home, `.home` in its folder, as this process looks at it: the program may have put anything there, and no
link of its making is followed.

    cleared ─▶ laid (what the program is configured by) ─▶ (the program, and its answer) ─▶ answer
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

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


def laid(folder: Path, files: Mapping[str, str]) -> None:
    """Put files into the home, by their places in it, each in the place of what was there.

    Raises:
        OSError: one cannot be written.
    """
    for name, text in files.items():
        *above, last = PurePosixPath(name).parts
        with contextlib.ExitStack() as stack:
            place = stack.enter_context(_opened(folder))
            for each in (HOME, *above):
                with contextlib.suppress(FileExistsError):
                    os.mkdir(each, 0o700, dir_fd=place)
                place = stack.enter_context(_opened(each, place))
            with contextlib.suppress(FileNotFoundError):
                os.unlink(last, dir_fd=place)
            file = os.open(
                last, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=place
            )
            with open(file, "w", encoding="utf-8") as written:  # noqa: PTH123 - by its descriptor
                written.write(text)


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

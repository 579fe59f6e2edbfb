"""Files that have no name any more and take room all the same: open in some process, or mapped.

    processes of a sandbox ─▶ their descriptors and mappings that say "(deleted)" ─▶ bytes on disk, each file once

One that is only on its way from one process to another, in a socket, is seen by nobody.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable

_PLACES = ("/workspace", "/home/agent", "/tmp", "/var/tmp")
_GONE = " (deleted)"


def nameless(processes: Iterable[int]) -> int:
    """Bytes on disk of the files without a name, below the folders a sandbox may write, that these processes hold."""
    found: dict[tuple[int, int], int] = {}
    for pid in processes:
        for place in (f"/proc/{pid}/fd", f"/proc/{pid}/map_files"):
            with contextlib.suppress(OSError):  # it has ended, or only root may look
                for name in os.listdir(place):  # noqa: PTH208 - thousands of them
                    _held(f"{place}/{name}", found)
    return sum(found.values())


def _held(path: str, found: dict[tuple[int, int], int]) -> None:
    with contextlib.suppress(OSError):
        target = os.readlink(path)  # noqa: PTH115
        if target.endswith(_GONE) and target.startswith(_PLACES):
            about = os.stat(path)  # noqa: PTH116
            if stat.S_ISREG(about.st_mode) and about.st_nlink == 0:
                found[about.st_dev, about.st_ino] = about.st_blocks * 512

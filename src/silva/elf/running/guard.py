"""What a tool may open while its step runs: a second wall behind the permissions of its card.

An audit hook of Python refuses, by name, a connection of a tool without `net` or `model`, and the opening of a file
that the step was not given by a tool without `read` (or for writing, outside the job's folder, without `write`). It
finds a tool whose card says less than it does. It is no wall against malice: a package's tool is code that somebody
installed. Code that was derived runs in `silva.sandbox`, where there is nothing to open.
"""

from __future__ import annotations

import os
import site
import sys
import sysconfig
import tempfile
from collections.abc import Collection
from pathlib import Path
from typing import Any

from silva.elf.tool import Permission

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_NET = ("socket.connect", "socket.sendto", "socket.getaddrinfo")


class Refused(PermissionError):
    """A tool did what its card does not say."""


class Guard:
    """The guard of a process; `step` says what the running step may do. The hook stays for the process's life."""

    def __init__(self) -> None:
        self._who = ""
        self._granted: Collection[Permission] = tuple(Permission)
        self._places: tuple[str, ...] = ()
        self._ours: tuple[str, ...] = ()
        self.refused = ""
        # Found now: a hook that looks for it while it is being looked for waits for itself.
        self._temporary = ("/dev/", os.path.realpath(tempfile.gettempdir()) + "/")
        sys.addaudithook(self._heard)

    def step(self, who: str, granted: Collection[Permission], places: Collection[Path]) -> None:
        """A step begins: what its tool's card says, and the folders that it was given."""
        roots = [sys.prefix, sys.base_prefix, sysconfig.get_path("stdlib"), *site.getsitepackages(), *sys.path]
        self._ours = tuple(os.path.realpath(each) + "/" for each in roots if each and os.path.isdir(each))  # noqa: PTH112
        self._ours += ("/usr/", "/proc/", "/dev/", "/sys/", "/etc/", "/lib/")
        self._places = tuple(os.path.realpath(each) + "/" for each in places)
        # Where Python stands in the same folder as data, the data is not Python's.
        self._ours = tuple(each for each in self._ours if not os.path.realpath(Path.cwd()).startswith(each.rstrip("/")))
        self.refused = ""
        self._who, self._granted = who, granted

    def over(self) -> None:
        """The step is over."""
        self._who = ""

    def _heard(self, event: str, given: tuple[Any, ...]) -> None:
        if not self._who:
            return
        if event in _NET:
            if Permission.NET not in self._granted and Permission.MODEL not in self._granted and not _local(given):
                self._refuse(f"{self._who} opened a connection, and its card has no permission net")
        elif event == "open" and isinstance(given[0], str | bytes):
            path = os.fsdecode(given[0])
            wanted = given[2] if len(given) > 2 and isinstance(given[2], int) else 0
            writes = bool(wanted & _WRITES)
            if (writes and Permission.WRITE in self._granted) or (not writes and Permission.READ in self._granted):
                return
            found = os.path.realpath(path)
            if found.startswith(self._places) or (not writes and (found + "/").startswith(self._ours)):
                return
            if writes and f"{found}/".startswith(self._temporary):  # a file without a name opens the folder itself
                return
            what = "write" if writes else "read"
            self._refuse(f"{self._who} opened {found} to {what} it, and its card has no permission {what}")

    def _refuse(self, why: str) -> None:
        who, self._who = self._who, ""  # what is told and closed after this needs files, too
        self.refused = self.refused or why
        self._who = who
        raise Refused(why)


def _local(given: tuple[Any, ...]) -> bool:
    """Whether it is a socket of the file system: talk between our own processes."""
    return len(given) > 1 and isinstance(given[1], str | bytes)

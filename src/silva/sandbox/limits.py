"""What a sandbox may use of the machine."""

from __future__ import annotations

import re

from silva.errors import UsageError
from silva.tree import Record

MIB = 1 << 20
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


class Limits(Record, frozen=True, kw_only=True):
    """Bounds of one sandbox; how each is held says `Capabilities.limits`.

    Attributes:
        memory: bytes, of all its processes together.
        processes: how many processes and threads at once.
        cpus: processors' worth of time it gets.
        disk: bytes that it may write, all files together; also the largest single file.
        wall: seconds one command may take, unless the command is given its own.
        output: bytes of a command's standard output, and of its standard error, that are kept: half from each end.
        flood: bytes of output after which a command is killed.
        open_files: how many files one process may have open.
    """

    memory: int = 512 * MIB
    processes: int = 128
    cpus: float = 1.0
    disk: int = 1024 * MIB
    wall: float = 300.0
    output: int = MIB
    flood: int = 256 * MIB
    open_files: int = 1024

    def checked(self) -> Limits:
        """These limits, if they make sense.

        Raises:
            UsageError: which one does not.
        """
        least = {
            "memory": 8 * MIB,
            "processes": 4,
            "cpus": 0.01,
            "disk": MIB,
            "wall": 0.001,
            "output": 64,
            "flood": 64,
            "open_files": 16,
        }
        for name, value in least.items():
            given = getattr(self, name)
            if not given >= value:
                raise UsageError(f"limits.{name} is {given}: at least {value} is needed")
        return self


def size(text: str) -> int:
    """Bytes of `512`, `64k`, `256M`, `2G` or `2GiB`.

    Raises:
        UsageError: it is no size.
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?\s*", text, re.IGNORECASE)
    if found is None:
        raise UsageError(f"{text!r} is no size: write 512M or 2G")
    return int(float(found[1]) * _UNITS[found[2].lower()])

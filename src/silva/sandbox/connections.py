"""Connections of a sandbox whose other end is not in it: its owner's proxy, a door, a display. A snapshot of what runs
holds one end of such a one alone, and what is brought back finds it broken.

    /proc/FIRST/net/tcp ─▶ established ones ─▶ both ends held inside? ─▶ the addresses of those that are not
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

_ESTABLISHED = "01"


def outside(first: int, processes: Iterable[int]) -> tuple[str, ...]:
    """Where to the established TCP connections lead whose other end no process inside holds.

    Args:
        first: the sandbox's process 1, as seen here.
        processes: all that run in it.
    """
    inside = _sockets(processes)
    ends: dict[tuple[str, str], str] = {}
    for name in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{first}/net/{name}").read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == _ESTABLISHED:
                    ends[_plain(fields[1]), _plain(fields[2])] = fields[9]
    found = [
        theirs for (ours, theirs), inode in ends.items() if inode in inside and ends.get((theirs, ours)) not in inside
    ]
    return tuple(sorted({_shown(each) for each in found}))


def broken(first: int, processes: Iterable[int]) -> str:
    """What a checkpoint says of the connections that lead out; "" where none does. See `outside`."""
    led = outside(first, processes)
    return f"connections whose other end is outside are broken when it is brought back: {', '.join(led)}" if led else ""


def _sockets(processes: Iterable[int]) -> set[str | None]:
    found: set[str | None] = set()
    for pid in processes:
        with contextlib.suppress(OSError):
            for name in os.listdir(f"/proc/{pid}/fd"):  # noqa: PTH208 - thousands of them
                with contextlib.suppress(OSError):
                    target = os.readlink(f"/proc/{pid}/fd/{name}")  # noqa: PTH115
                    if target.startswith("socket:["):
                        found.add(target[8:-1])
    return found


def _plain(end: str) -> str:
    """An end as `ADDRESS:PORT` in the kernel's hexadecimal digits; one of IPv4 in the clothes of IPv6 as IPv4."""
    address, _, port = end.partition(":")
    return f"{address.removeprefix('0000000000000000FFFF0000')}:{port}"


def _shown(end: str) -> str:
    address, _, port = end.partition(":")
    if len(address) == 8:
        address = ".".join(str(each) for each in reversed(bytes.fromhex(address)))
    return f"{address}:{int(port, 16)}"

"""Room for the connections of all proxies of one owner: so many of each sandbox, so many together, none for ever.

    Proxy ─▶ Room.enter(sandbox's guests, connection) ─▶ in │ too many of its own: no │ too many of all: who has most
                                                           gives its idlest up ◀─────────────────────────────┘

A connection takes two descriptors of its owner's, and an owner that has none left can do nothing for anybody. Names are
looked up by threads of the room's own: however long a name server takes, nothing else of the owner waits for it.
"""

from __future__ import annotations

import asyncio
import resource
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

_EACH = 64
"""Connections of one sandbox at once."""
_SHARE = 8
"""Of an owner's descriptors, one in so many is for connections (each takes two)."""
_LOOKUPS = 8
_LOOKUPS_EACH = 2


class Guest:
    """One connection: the task that serves it, and when something last went through."""

    def __init__(self, task: asyncio.Task[None]) -> None:
        self.task = task
        self.last = time.monotonic()

    def moved(self) -> None:
        """Something went through."""
        self.last = time.monotonic()


class Guests:
    """The connections of one sandbox, and its look-ups."""

    def __init__(self) -> None:
        self.inside: set[Guest] = set()
        self.looking = asyncio.Semaphore(_LOOKUPS_EACH)

    def __iter__(self) -> Iterator[Guest]:
        return iter(tuple(self.inside))


class Room:
    """The connections of one owner's sandboxes.

    Args:
        each: connections of one sandbox at once.
        together: of all; an eighth of the descriptors that this process may have when left out.
    """

    def __init__(self, *, each: int = _EACH, together: int = 0) -> None:
        self._each = each
        self._together = together or max(each, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // _SHARE)
        self._all: list[Guests] = []
        self._threads: ThreadPoolExecutor | None = None

    def guests(self) -> Guests:
        """Those of one more sandbox."""
        made = Guests()
        self._all.append(made)
        return made

    def enter(self, guests: Guests, guest: Guest) -> bool:
        """Let one in; False where its sandbox has as many as it may."""
        if len(guests.inside) >= self._each:
            return False
        if sum(len(each.inside) for each in self._all) >= self._together:
            most = max(self._all, key=lambda each: len(each.inside))
            if most is guests or len(most.inside) <= len(guests.inside) + 1:
                return False
            idlest = min(most, key=lambda each: each.last)
            most.inside.discard(idlest)
            idlest.task.cancel()
        guests.inside.add(guest)
        return True

    def leave(self, guests: Guests) -> None:
        """A sandbox has ended."""
        self._all.remove(guests)

    async def addresses(self, guests: Guests, host: str, port: int) -> list[str]:
        """What a name server says of a host. Raises OSError."""
        if self._threads is None:
            self._threads = ThreadPoolExecutor(_LOOKUPS, "sandbox-names")
        async with guests.looking:
            asked = self._threads.submit(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
            found = await asyncio.wrap_future(asked)
        return [str(address[0]) for *_, address in found]

    def close(self) -> None:
        """Look nothing up any more."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)

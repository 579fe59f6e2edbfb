"""Where a path's records go: a journal that keeps them, or nowhere."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

from silva.tree import AnyRecord


class Journal(Protocol):
    """Where records go: durable when the future of `submit` is done."""

    def submit(self, records: Sequence[AnyRecord]) -> asyncio.Future[None]:
        """Send the records on their way; the future is done once they are on disk."""
        ...


class Nowhere:
    """Keeps nothing: for a walk that is tried out and is on no tree."""

    def submit(self, records: Sequence[AnyRecord]) -> asyncio.Future[None]:
        """Let the records go."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        done.set_result(None)
        return done

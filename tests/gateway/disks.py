"""Disks that are full, or slow, for as long as a test says so."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from collections.abc import Callable, Sequence
from typing import Any


class FullDisk:
    """In place of `os.fdatasync`: while `full`, the journal's disk takes nothing."""

    def __init__(self) -> None:
        self.full = False
        self._really = os.fdatasync

    def __call__(self, descriptor: int) -> None:
        if self.full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._really(descriptor)


class SlowDisk:
    """Holds what is submitted to a lake back until told otherwise, in order, as the journal does."""

    def __init__(self, submit: Callable[..., asyncio.Future[None]]) -> None:
        self.held = threading.Event()
        self._submit = submit
        self._go = threading.Event()
        self._tasks: list[asyncio.Task[None]] = []

    def __call__(
        self, records: Sequence[Any], *, at_once: bool = False, meanwhile: Callable[[], object] | None = None
    ) -> asyncio.Future[None]:
        loop = asyncio.get_running_loop()
        durable: asyncio.Future[None] = loop.create_future()

        async def later() -> None:
            await asyncio.to_thread(self._go.wait)
            await self._submit(records, at_once=at_once, meanwhile=meanwhile)
            if not durable.cancelled():
                durable.set_result(None)

        self._tasks.append(loop.create_task(later()))
        self.held.set()
        return durable

    def go(self) -> None:
        """Let everything through."""
        self._go.set()

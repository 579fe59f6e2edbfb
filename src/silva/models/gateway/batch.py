"""Turns gathered on their way to the journal: one hand-over for many, when many are on their way.

    submit ─▶ batch ─▶ (quiet: at once │ busy: within GATHER seconds) ─▶ one submission ─▶ every waiter at once

Each hand-over wakes the journal's thread and comes back from it, which costs the loop a third of a millisecond with the
interpreter's lock going to and fro. Alone, a turn does not wait, and on a quick disk is written by the loop itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from silva.errors import StoreError

GATHER = 0.008
"""Seconds a turn may wait for others when many are at work; they would wait as long for the processor."""
MANY = 8
"""So many at work are many."""


class Batch:
    """Gathers encoded records.

    Args:
        submit: sends them on their way to disk, all in one; told whether the loop has little else to do, and what to do
            meanwhile.
    """

    def __init__(
        self, submit: Callable[[list[bytes], bool, Callable[[], object] | None], asyncio.Future[None]]
    ) -> None:
        self.at_work = 0
        self._submit = submit
        self._records: list[bytes] = []
        self._waiters: list[asyncio.Future[None]] = []

    def add(self, records: list[bytes], meanwhile: Callable[[], object] | None = None) -> asyncio.Future[None]:
        """The records go with the batch; the future is done once they are on disk. `meanwhile` is called once, while
        they are on their way or wait to be; it must not raise."""
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = loop.create_future()
        if self.at_work >= MANY and not self._waiters:
            loop.call_later(GATHER, self._send)
        self._records.extend(records)
        self._waiters.append(waiter)
        if self.at_work < MANY:
            self._send(meanwhile)
        elif meanwhile is not None:
            meanwhile()
        return waiter

    def _send(self, meanwhile: Callable[[], object] | None = None) -> None:
        if not self._waiters:  # they went with somebody who came when it was quiet again
            return
        records, waiters = self._records, self._waiters
        self._records, self._waiters = [], []
        try:
            on_its_way = self._submit(records, self.at_work < MANY, meanwhile)
            if on_its_way.done():
                _tell(waiters, on_its_way.exception())
            else:
                on_its_way.add_done_callback(lambda done: _tell(waiters, done.exception()))
        except StoreError as error:
            _tell(waiters, error)


def _tell(waiters: list[asyncio.Future[None]], error: BaseException | None) -> None:
    for waiter in waiters:
        if waiter.done():  # its client left; the record is kept all the same
            continue
        if error is None:
            waiter.set_result(None)
        else:
            waiter.set_exception(error)

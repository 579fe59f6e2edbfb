"""The intake: arrivals become durable before anybody is told that they are kept.

    arrivals ─▶ room? ─▶ the stages of arrival (redact …) ─▶ journal (one fdatasync for all who wait) ─▶ acknowledged
                  └ none: 429, come again       └ the disk is full: 503, come again; the lake is opened anew meanwhile

What is refused is counted, and its sender told: nothing falls away in silence.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Protocol

from silva.errors import StoreError
from silva.lake.entry import Arrival
from silva.lake.frames import Entry, encoded
from silva.lake.ingest.limits import Limits, Refused
from silva.lake.lake import Lake

log = logging.getLogger(__name__)

PATIENCE = 2.0
"""Seconds between two tries to open a lake that took no more."""
LOOK = 0.5
"""Seconds between two looks at how far the tables are behind."""


class ArrivalStage(Protocol):
    """What is done to arrivals before they are kept."""

    def arrive(self, arrivals: Sequence[Arrival]) -> Sequence[Arrival]:
        """The arrivals as they are to be kept, as many."""
        ...


class Intake:
    """The lake behind an ingest server.

    Args:
        open_lake: opens the lake to write; called again after it failed.
        limits: what may be under way.
        stages: what is done to each arrival first.

    Attributes:
        lake: the lake.
        counts: what was received, kept, refused and put off, since the start.
    """

    def __init__(
        self, open_lake: Callable[[], Lake], limits: Limits | None = None, stages: Sequence[ArrivalStage] = ()
    ) -> None:
        self.lake = open_lake()
        self.limits = limits or Limits()
        self.counts: Counter[str] = Counter()
        self.failure: str | None = None
        self._open = open_lake
        self._stages = tuple(stages)
        self._under_way = 0
        self._looked = self._tried = 0.0
        self._behind = 0
        self._recovering: asyncio.Task[None] | None = None

    def admit(self, size: int) -> None:
        """Set room aside for a request of `size` bytes; `release` gives it back.

        Raises:
            Refused: there is none, the tables are too far behind, or the lake takes nothing.
        """
        if self._under_way and self._under_way + size > self.limits.under_way:
            self.counts["put_off"] += 1
            raise Refused(429, f"{self._under_way} bytes are being taken already: come again", 1.0)
        if self._late():
            self.counts["put_off"] += 1
            raise Refused(429, f"{self._behind} segments wait to become tables: come again", 2.0)
        self._under_way += size

    def release(self, size: int) -> None:
        """A request is done with."""
        self._under_way -= size

    async def keep(self, arrivals: Sequence[Arrival]) -> Sequence[Arrival]:
        """Return once the arrivals are on disk, as they were kept.

        Raises:
            Refused: they are not.
        """
        if not arrivals:
            return arrivals
        for stage in self._stages:
            arrivals = stage.arrive(arrivals)
        await self.write(arrivals)
        self.counts["kept"] += len(arrivals)
        return arrivals

    async def write(self, records: Sequence[Entry]) -> None:
        """Return once the records are on disk.

        Raises:
            Refused: they are not.
        """
        try:
            await self.write_encoded([encoded(each) for each in records])
        except StoreError as error:  # the record's own fault: text that is no Unicode
            raise Refused(400, str(error)) from error

    async def write_encoded(self, records: Sequence[bytes]) -> None:
        """As `write`, of records that are encoded already.

        Raises:
            Refused: they are not on disk.
        """
        if not records:
            return
        if self.failure is not None and not await self._recovered():
            raise Refused(503, f"nothing can be kept now: {self.failure}", PATIENCE)
        try:
            await self.lake.submit_encoded(records)
        except StoreError as error:
            self._failed(str(error))
            raise Refused(503, f"nothing can be kept now: {error}", PATIENCE) from error

    async def close(self) -> None:
        """Bring what is there to the tables and let the lake go.

        Raises:
            StoreError: it could not be; what was acknowledged is in the journal.
        """
        if self._recovering is not None:
            await asyncio.wait([self._recovering])
        await self.lake.close()

    def _late(self) -> bool:
        now = time.monotonic()
        if now - self._looked >= LOOK:
            self._looked, self._behind = now, self.lake.waiting()
        return self._behind > self.limits.behind

    def _failed(self, why: str) -> None:
        if self.failure is None:
            log.error("%s", why)
        self.failure = why
        self._tried = time.monotonic()

    async def _recovered(self) -> bool:
        if self._recovering is None and time.monotonic() - self._tried >= PATIENCE:
            self._tried = time.monotonic()
            self._recovering = asyncio.create_task(self._recover())
        if self._recovering is not None:
            await asyncio.wait([self._recovering])
        return self.failure is None

    async def _recover(self) -> None:
        try:
            try:
                await self.lake.close()
            except StoreError as error:
                log.warning("closing the lake that failed: %s", error)
            self.lake = await asyncio.to_thread(self._open)
            await asyncio.to_thread(self.lake.reserve)
            self.failure = None
            log.warning("the lake can be written again")
        except StoreError as error:
            self.failure = str(error)
        finally:
            self._recovering = None

"""One job: its controller, its files, and those who wait for something to change.

call ─▶ controller decides, event applied ─▶ journal (order of calls = order on disk) ─▶ durable ─▶ answer
                   │                             └ the disk refuses: no answer; the job is read back from disk
                   └ whoever waits is woken
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path

from silva.errors import StoreError
from silva.train.buffer.config import JobConfig
from silva.train.buffer.controller import Controller
from silva.train.buffer.events import Event
from silva.train.buffer.files import Files
from silva.train.buffer.group import Admission, Delivery, Group, Header, Receipt, Status, Withheld, check_id
from silva.train.buffer.refused import Refused

MOST_IDS = 4096
"""Ids, or hand-outs, of one call."""
LOOK_SECONDS = 1.0
"""How often those who wait look whether a group in flight ran out of time."""
PATIENCE = 1.0
"""Seconds between two tries to open a job whose disk failed."""


class Job:
    """A `Buffer` in this process. Use it within one event loop.

    Args:
        name: the job's, for messages.
        terms: what it was opened with.
        folder: its own; the caller holds the lock over it.
        answer_bytes: samples that one take returns, at least one group.

    Raises:
        StoreError: the folder cannot be read or written, or is damaged.
    """

    def __init__(self, name: str, terms: JobConfig, folder: Path, *, answer_bytes: int = 1 << 40) -> None:
        self.name, self.terms = name, terms
        self._folder, self._answer_bytes = folder, answer_bytes
        self._arriving: dict[str, asyncio.Event] = {}
        self._changed = asyncio.Event()
        self._until: dict[str, float] = {}
        self._tried = 0.0
        self._newest: asyncio.Future[None] | None = None
        self._load()

    async def permits(self) -> int:
        """See `Buffer.permits`."""
        return (await self.status()).permits

    async def start(self, ids: Sequence[str], *, wait: float = 0.0) -> Admission:
        """See `Buffer.start`."""
        _few(ids)
        for name in ids:
            check_id("group", name)
        deadline = time.monotonic() + wait
        while True:
            self._usable()
            changed = self._changed
            admission, event = self.controller.start(ids)
            now = time.monotonic()
            self._until.update(dict.fromkeys(admission.admitted, now + self.terms.permit_seconds))
            await self._keep(event)
            if admission.admitted or admission.known or now >= deadline:
                return admission
            await _change(changed, deadline)

    async def abandon(self, ids: Sequence[str]) -> int:
        """See `Buffer.abandon`."""
        _few(ids)
        self._usable()
        count, event = self.controller.abandon(ids)
        await self._keep(event)
        return count

    async def put(self, group: Group, *, wait: float = 0.0) -> Receipt:
        """See `Buffer.put`."""
        header = group.header()
        deadline = time.monotonic() + wait
        while True:
            changed = self._changed
            try:
                return await self._put(group, header)
            except Refused as refused:
                if refused.kind != "full" or time.monotonic() >= deadline:
                    raise
            await _change(changed, deadline)

    async def take(self, after: int, count: int, *, wait: float = 0.0) -> list[Delivery]:
        """See `Buffer.take`."""
        if not 0 < count <= MOST_IDS or after < 0:
            raise Refused(
                "malformed", f"take of {count} after {after}: give 1 to {MOST_IDS}, after 0 or a hand-out's number"
            )
        deadline = time.monotonic() + wait
        while True:
            self._usable()
            changed = self._changed
            numbers, event = self.controller.take(after, count)
            found = [_Found(self.controller, number) for number in numbers]
            await self._keep(event)
            if found or time.monotonic() >= deadline:
                return await self._deliveries(found)
            await _change(changed, deadline)

    async def commit(self, cursor: int, version: int | None = None, *, checkpointed: int | None = None) -> Status:
        """See `Buffer.commit`."""
        self._usable()
        released = self.controller.checkpointed
        event = self.controller.commit(cursor, version, checkpointed)
        released_names = self.controller.delivered[released : self.controller.checkpointed]
        status = self.controller.status()
        await self._keep(event)
        await self._files.drop_groups(released_names)
        return status

    async def rewind(self, cursor: int, version: int) -> Status:
        """See `Buffer.rewind`."""
        self._usable()
        event = self.controller.rewind(cursor, version)
        status = self.controller.status()
        await self._keep(event)
        return status

    async def status(self) -> Status:
        """See `Buffer.status`."""
        self._usable()
        return self.controller.status()

    async def withheld(self, after: int = 0, most: int = 100) -> list[Withheld]:
        """See `Buffer.withheld`."""
        self._usable()
        return self.controller.withheld_after(after, min(most, MOST_IDS))

    async def read(self, name: str) -> Group:
        """See `Buffer.read`."""
        self._usable()
        if name not in self.controller.headers:
            state = self.controller.state(name)
            raise Refused(
                "not_found", f"group {name[:60]!r}: {'is trained and gone' if state else 'is not in this job'}"
            )
        return await self._files.read_group(name)

    async def close(self) -> None:
        """See `Buffer.close`."""
        await asyncio.to_thread(self.release)

    def release(self) -> None:
        """As `close`, blocking."""
        self._files.close()

    async def _put(self, group: Group, header: Header) -> Receipt:
        while header.id in self._arriving:
            await self._arriving[header.id].wait()
        self._usable()
        known = self.controller.check(header)
        if known is not None:
            return known
        arrived = self._arriving[header.id] = asyncio.Event()
        try:
            await self._files.write_group(group)
            self._usable()
            try:
                receipt, event = self.controller.enter(header)
            except Refused:
                await self._files.drop_groups([header.id])
                raise
            await self._keep(event)
            return receipt
        finally:
            del self._arriving[header.id]
            arrived.set()

    async def _deliveries(self, found: list[_Found]) -> list[Delivery]:
        deliveries: list[Delivery] = []
        length = 0
        for each in found:
            length += each.bytes
            if deliveries and length > self._answer_bytes:
                break
            try:
                group = await self._files.read_group(each.name)
            except StoreError as error:
                if each.name in self.controller.headers:
                    raise
                raise Refused("conflict", f"hand-out {each.number} was committed while it was being taken") from error
            delivery = Delivery(number=each.number, version=each.version, staleness=each.staleness, group=group)
            deliveries.append(delivery)
        return deliveries

    async def _keep(self, event: Event | None) -> None:
        if event is not None:
            self._newest = self._files.submit(event)
            changed, self._changed = self._changed, asyncio.Event()
            changed.set()
        if self._newest is not None:  # a repeated call must not be answered before the first one is durable
            await self._files.settled(self._newest)

    def _usable(self) -> None:
        """Give up what ran out of time; open the job again where its disk failed.

        Raises:
            StoreError: the disk still refuses.
        """
        now = time.monotonic()
        if self._files.failed:
            if now - self._tried < PATIENCE:
                raise StoreError(
                    f"buffer job {self.name}: its disk refused a write; free space, it is tried again soon"
                )
            self._tried = now
            self._files.close()
            self._load()
        self._until = {name: until for name, until in self._until.items() if name in self.controller.in_flight}
        spent = [name for name, until in self._until.items() if until <= now and name not in self._arriving]
        if spent:
            _, event = self.controller.abandon(spent)
            if event is not None:
                self._newest = self._files.submit(event)
                self._newest.add_done_callback(_retrieved)

    def _load(self) -> None:
        self._newest = None
        self._files = Files(self._folder, self.name)
        try:
            self.controller = Controller(self.terms)
            for event in self._files.events:
                self.controller.apply(event)
            self._files.events.clear()
            self._files.sweep(self.controller.headers, remove=not self._arriving)
        except BaseException:
            self._files.close()
            raise
        self._until = dict.fromkeys(self.controller.in_flight, time.monotonic() + self.terms.permit_seconds)


class _Found:
    """A hand-out as it is when it is taken; the controller may release it while its file is read."""

    def __init__(self, controller: Controller, number: int) -> None:
        self.number, self.name = number, controller.delivered[number - 1]
        self.version, self.staleness = controller.version_of(number), controller.staleness(number)
        self.bytes = controller.headers[self.name].bytes


async def _change(changed: asyncio.Event, deadline: float) -> None:
    """Return when something changed, it is time to look, or the deadline is there."""
    left = min(LOOK_SECONDS, max(0.0, deadline - time.monotonic()))
    try:
        await asyncio.wait_for(changed.wait(), left)
    except TimeoutError:
        return


def _few(ids: Sequence[str]) -> None:
    if not 0 < len(ids) <= MOST_IDS:
        raise Refused("malformed", f"{len(ids)} ids in one call: give 1 to {MOST_IDS}")


def _retrieved(on_its_way: asyncio.Future[None]) -> None:
    if not on_its_way.cancelled():
        on_its_way.exception()

"""Keeps turns: the lake as the gateway uses it, and what happens when it can take no more.

    nodes ─▶ submit ─▶ durable ─▶ the reply may go out
                └─ the disk is full ─▶ failure: turns are refused before a model is asked ─▶ recover: open again

After a failed write the journal takes nothing more until it is opened anew (a disk that lost one write cannot be
trusted to keep order), so recovery closes and opens the lake; what was acknowledged is in it. It is over only once the
disk has given room for what comes.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence

from silva.errors import StoreError
from silva.lake import Lake
from silva.models.gateway.batch import Batch
from silva.models.gateway.problem import Problem
from silva.tree import AnyRecord, Node, Run, Trajectory, Usage, encode

PATIENCE = 5.0
"""Seconds between two tries to open a lake that failed."""

log = logging.getLogger(__name__)

_SPENT = """select sum(prompt_tokens), sum(completion_tokens), sum(cached_tokens), sum(usd), count(*)
from nodes where run_id = '{run}' and author = 'policy'"""


class Keeper:
    """The lake behind a gateway. `reopen` opens it again after a failure (None: the lake is somebody else's, who will
    know what to do)."""

    def __init__(self, lake: Lake, reopen: Callable[[], Lake] | None = None) -> None:
        self.lake = lake
        self.failure: str | None = None
        self._reopen = reopen
        self._tried = 0.0
        self._recovering: asyncio.Task[None] | None = None
        self._notes: set[asyncio.Task[None]] = set()
        self.batch = Batch(
            lambda records, at_once, meanwhile: self.lake.submit_encoded(records, at_once=at_once, meanwhile=meanwhile)
        )
        self.recovered: Callable[[], None] = lambda: None

    def submit(self, written: list[bytes], meanwhile: Callable[[], object] | None = None) -> asyncio.Future[None]:
        """Send records, encoded, on their way to disk; wait for them with `settled`, which raises what goes wrong.
        `meanwhile` is called while they are on their way; it must not raise."""
        return self.batch.add(written, meanwhile)

    async def settled(self, on_its_way: asyncio.Future[None]) -> None:
        """Return once what was submitted is on disk. A caller that is cancelled does not take it back.

        Raises:
            StoreError: it is not, and no more will be taken until the lake has been opened again.
        """
        try:
            await on_its_way
        except StoreError as error:
            self._failed(error)
            raise

    async def keep(self, records: Sequence[AnyRecord]) -> None:
        """Return once the records are on disk.

        Raises:
            StoreError: as `submit` and `settled`.
            SchemaError: a record that cannot be written.
        """
        await self.settled(self.submit([encode(record) for record in records]))

    async def write(self, records: Sequence[AnyRecord], what: str) -> None:
        """Return once the records are on disk; `what` they are is told where they cannot be.

        Raises:
            Problem: the lake takes nothing.
        """
        if not records:
            return
        try:
            if not await self.ready():
                raise StoreError(self.failure or "the lake takes nothing")
            await self.keep(records)
        except StoreError as error:
            raise Problem("store", f"{what} cannot be kept: {error}", retry_after=5.0) from error

    def note(self, record: AnyRecord) -> None:
        """Have a record written that nobody waits for."""
        task = asyncio.create_task(self._note(record))
        self._notes.add(task)
        task.add_done_callback(self._notes.discard)

    async def noted(self) -> None:
        """Return once every note is written, or could not be."""
        await asyncio.gather(*self._notes)

    async def keep_blob(self, data: bytes, media_type: str) -> None:
        """Return once the bytes are durable.

        Raises:
            StoreError: as `keep`.
        """
        try:
            await self.lake.put_blob(data, media_type)
        except StoreError as error:
            self._failed(error)
            raise

    async def blob(self, name: str) -> bytes:
        """The bytes of that hash.

        Raises:
            StoreError: the lake has none of that name, or they are damaged.
        """
        return await asyncio.to_thread(self.lake.get_blob, name)

    async def ready(self) -> bool:
        """Whether turns can be kept; after a failure, tries to open the lake again now and then."""
        if self.failure is None:
            return True
        if self._reopen is None:
            return False
        if self._recovering is None and time.monotonic() - self._tried >= PATIENCE:
            self._tried = time.monotonic()
            self._recovering = asyncio.create_task(self._recover(self._reopen))
        if self._recovering is not None:
            await asyncio.wait([self._recovering])
        return self.failure is None

    async def run(self, name: str) -> Run | None:
        """A run's record."""
        return await asyncio.to_thread(self.lake.run, name)

    async def spent(self, name: str) -> tuple[Usage, int]:
        """What the stored turns of a run cost, and how many there are."""
        rows = await asyncio.to_thread(self.lake.sql, _SPENT.format(run=name))
        *sums, count = (column[0].as_py() or 0 for column in rows.columns)  # sums of integers come as decimals
        prompt, reply, cached = map(int, sums[:3])
        spent = Usage(prompt_tokens=prompt, completion_tokens=reply, cached_tokens=cached, usd=float(sums[3]))
        return spent, count

    async def nodes(self, tree_id: str) -> list[Node]:
        """The stored nodes of a tree."""
        return await asyncio.to_thread(lambda: self.lake.nodes(tree_id=tree_id))

    async def trajectories(self, run: str) -> list[Trajectory]:
        """The stored trajectories of a run."""
        return await asyncio.to_thread(lambda: self.lake.trajectories(run_id=run))

    async def _note(self, record: AnyRecord) -> None:
        try:
            await self.keep([record])
        except StoreError as error:
            log.warning("%s %s is not kept: %s", type(record).__name__.lower(), record.id, error)

    def _failed(self, error: StoreError) -> None:
        if self.failure is None:
            log.error("turns cannot be kept: %s", error)
        self.failure = str(error)
        self._tried = time.monotonic()

    async def _recover(self, reopen: Callable[[], Lake]) -> None:
        try:
            try:
                await self.lake.close()
            except StoreError as error:
                log.warning("closing the lake that failed: %s", error)
            self.lake = await asyncio.to_thread(reopen)
            await asyncio.to_thread(self.lake.reserve)  # or the next turn would be asked of the model, and withheld
            self.failure = None
            self.recovered()
            log.warning("the lake can be written again; turns are kept")
        except StoreError as error:
            self.failure = str(error)
        finally:
            self._recovering = None

"""The worker's end of the journal: what is submitted here is durable when its future is done.

    submit, put_blob ─▶ letter with a number ─▶ collected by the driver ─▶ its journal ─▶ acknowledge(number) ─▶ future

It answers an episode as a lake does (`silva.rollout.scheduler.Store`).
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterable, Sequence

from silva.errors import StoreError
from silva.rollout.on_ray.letters import Blob, Fault, Letter, Records
from silva.tree import AnyRecord, Node, SchemaError, Trajectory, encode


class Outbox:
    """Letters of one worker, all its episodes together."""

    def __init__(self) -> None:
        self._letters: list[Letter] = []
        self._waiting: dict[int, asyncio.Future[None]] = {}
        self._filled = asyncio.Event()
        self._last = 0

    async def collect(self, seconds: float) -> list[Letter]:
        """Take the letters; waits so long for one."""
        try:
            async with asyncio.timeout(seconds):
                await self._filled.wait()
        except TimeoutError:
            return []
        letters, self._letters = self._letters, []
        self._filled.clear()
        return letters

    def acknowledge(self, numbers: Iterable[int], failure: str = "") -> None:
        """The driver has kept these; or could not, and `failure` says why."""
        for number in numbers:
            future = self._waiting.pop(number, None)
            if future is None or future.done():  # whoever waited was cancelled
                continue
            if failure:
                future.set_exception(StoreError(failure))
            else:
                future.set_result(None)

    def records(self, flight: int, records: Sequence[AnyRecord]) -> asyncio.Future[None]:
        """Send records of an episode.

        Raises:
            StoreError: a record cannot be written.
        """
        nodes: list[tuple[str, bytes]] = []
        trajectory = b""
        for record in records:
            try:
                payload = encode(record)
            except SchemaError as error:
                raise StoreError(f"{type(record).__name__.lower()} cannot be written: {error}") from error
            if isinstance(record, Node):
                nodes.append((record.id, payload))
            else:
                assert isinstance(record, Trajectory) and not trajectory
                trajectory = payload
        self._last += 1
        letter = Records(number=self._last, flight=flight, nodes=tuple(nodes), trajectory=trajectory)
        return self._post(letter, self._last)

    def blob(self, data: bytes, media_type: str) -> asyncio.Future[None]:
        """Send bytes."""
        self._last += 1
        return self._post(Blob(number=self._last, data=data, media_type=media_type), self._last)

    def fault(self, fault: Fault) -> None:
        """Tell of an episode that broke."""
        self._letters.append(fault)
        self._filled.set()

    def _post(self, letter: Letter, number: int) -> asyncio.Future[None]:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        self._letters.append(letter)
        self._filled.set()
        return future


class EpisodeStore:
    """What one episode takes for the lake."""

    def __init__(self, outbox: Outbox, flight: int) -> None:
        self._outbox = outbox
        self._flight = flight

    def submit(self, records: Sequence[AnyRecord]) -> asyncio.Future[None]:
        """As `Lake.submit`."""
        return self._outbox.records(self._flight, records)

    async def put_blob(self, data: bytes, media_type: str = "application/octet-stream") -> str:
        """As `Lake.put_blob`."""
        await self._outbox.blob(data, media_type)
        return hashlib.sha256(data).hexdigest()

"""One request on its way through the engine, seen from the server's loop.

async with Flight(engine, exchange, …) as flight:   submitted under its version
    async for _ in flight.moves(): …                woken by the engine's thread; ends when done or the client left
                                                    left early: the job is dropped, its row freed
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from types import TracebackType

from silva.models.local.engine import Engine, Job
from silva.models.local.growing import Growing
from silva.models.local.sampler import Choice
from silva.models.local.versions import Version
from silva.models.serving import Exchange, Refusal


class Flight:
    """A job, followed.

    Args:
        engine: computes it.
        exchange: whose client may leave.
        growing: takes in every id, in the engine's thread.
        version: whose weights answer, held until the end.
        prompt: ids to continue.
        most: bounds the reply in tokens; the context bounds it too.
        choice: how to sample.
        ends: ids that end it; None for the model's own end mark.
        eager: wake at every token, not only at the end.
    """

    def __init__(
        self,
        engine: Engine,
        exchange: Exchange,
        growing: Growing,
        version: Version,
        prompt: list[int],
        most: int,
        choice: Choice,
        ends: frozenset[int] | None = None,
        eager: bool = False,
    ) -> None:
        self.growing = growing
        self.version = version
        self.done = False
        self._engine = engine
        self._exchange = exchange
        self._eager = eager
        self._news = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        most = min(most, engine.network.context - len(prompt))
        self.job = Job(prompt, most, choice, self._moved, version.adapter, ends)

    def _moved(self, job: Job) -> None:
        early = self._eager or bool(self.growing.stops)
        if job.fault is None and job.finish != "stopped" and (early or job.finish):
            self.growing.grow(job)
        self.done = bool(job.finish)  # only now: the text is whole
        if self._eager or self.done:
            self._loop.call_soon_threadsafe(self._news.set)

    async def __aenter__(self) -> Flight:
        self._gone = asyncio.ensure_future(self._exchange.gone())
        self._gone.add_done_callback(lambda _: self._news.set())
        self.version.enter()
        self._engine.submit(self.job)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.job.cancelled = not self.done
        self.version.leave()
        self._gone.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._gone

    async def moves(self) -> AsyncIterator[None]:
        """Wait for news again and again; ends after the last, or when the client has left."""
        while not self.done:
            await self._news.wait()
            self._news.clear()
            if self._gone.done():
                return
            yield

    @property
    def left(self) -> bool:
        """Whether the client went away before the end."""
        return not self.done or self._gone.done()

    def check(self) -> None:
        """See that it ended well.

        Raises:
            Refusal: the engine failed or is stopping.
        """
        if self.job.fault is not None:
            said = " ".join(str(self.job.fault).split())[:200]
            raise Refusal(500, f"the model failed: {type(self.job.fault).__name__}: {said}")
        if self.job.finish == "stopped":
            raise Refusal(503, "the server is stopping")

"""One online run: generation in this event loop, the training in a thread, the buffer between them.

    align (serve, commit or rewind) ─▶ generation ∥ training ─▶ the last version published and committed ─▶ OnlineResult
                                            ├ one of the two fails: the other ends, the run says why
                                            └ it diverges: the last good version is served again

Told to stop, the trainer ends after its step and a checkpoint; trajectories under way are cut off and go on when the
run is resumed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from silva.errors import SilvaError
from silva.lake.durable import write_whole
from silva.train.buffer.buffer import Buffer
from silva.train.curves import Sink, read_curve, thinned
from silva.train.online.config import OnlineConfig
from silva.train.online.drawing import page
from silva.train.online.generation import Generation
from silva.train.online.growth import Growth, open_growth
from silva.train.online.limits import Readable, anything
from silva.train.online.publisher import Publisher
from silva.train.online.source import BufferSource
from silva.train.online.timeline import Idle, Span, Timeline, measure, steady
from silva.train.online.training import Training, training
from silva.train.output import disk_refusals
from silva.train.trainer import TrainResult

if TYPE_CHECKING:
    from silva.train.algorithms import Algorithm

SAMPLER = "sampler"
"""Folder in the output folder for weights on their way to the publisher."""
PAGE, SUMMARY = "timeline.html", "online.json"


@dataclass(frozen=True, kw_only=True)
class OnlineResult:
    """How a run, or this session of it, ended. `whole` is measured over the session, `steady` without its first groups
    and its end (None: too short); `barren` counts groups that gave nothing, by reason; `staleness` those trained, by
    how many versions old they were."""

    status: Literal["finished", "interrupted", "diverged"]
    step: int
    reason: str = ""
    policy: Path | None = None
    checkpoint: Path | None = None
    whole: Idle | None = None
    steady: Idle | None = None
    barren: dict[str, int] = field(default_factory=dict[str, int])
    staleness: dict[int, int] = field(default_factory=dict[int, int])
    spans: list[Span] = field(default_factory=list[Span])


class OnlineRun:
    """See the module.

    Args:
        config: of the run; its output folder is there and held.
        engine: the weights: an `Engine`, or what the configuration's engine is opened as.
        algorithm: scores and loss.
        buffer: the job, open in this event loop.
        publisher: serves what the run begins with.
        sinks: where curves go.
        stopping: asked between steps; True ends the run after a checkpoint.
        readable: refuses samples that the engine cannot train on.
    """

    def __init__(
        self,
        config: OnlineConfig,
        engine: Any,
        algorithm: Algorithm,
        buffer: Buffer,
        publisher: Publisher,
        *,
        stopping: Callable[[], bool] = lambda: False,
        readable: Readable = anything,
    ) -> None:
        self._config, self._engine, self._algorithm = config, engine, algorithm
        self._buffer, self._publisher, self._stopping = buffer, publisher, stopping
        self._readable = readable
        self._fault: BaseException | None = None

    async def run(
        self, *, resume: bool = False, sinks: Callable[[int], Sequence[Sink]] = lambda step: ()
    ) -> OnlineResult:
        """Grow and train up to the configured number of steps.

        Args:
            resume: go on from the last checkpoint.
            sinks: given the step the run begins at, where its curves go; closed at the end.

        Raises:
            UsageError: what is configured cannot be used, or too many groups in a row gave nothing.
            MissingError: an environment must be installed first.
            UnreachableError: the policy cannot be served, or does not answer.
            StoreError: lake, buffer or disk refused.
        """
        config = self._config
        loop = asyncio.get_running_loop()
        async with AsyncExitStack() as stack:
            timeline = Timeline(config.output)
            stack.callback(timeline.close)
            source = BufferSource(
                self._buffer,
                self._publisher,
                self._engine,
                config.output / SAMPLER,
                loop,
                every=config.checkpoints.every,
                timeline=timeline,
                stopping=self._ends,
            )
            trainer = training(config, self._engine, self._algorithm, source)
            start = trainer.resume() if resume else 0
            written = list(sinks(start))
            for sink in written:
                stack.callback(sink.close)
            trainer.follow(written)
            growth = await stack.enter_async_context(
                open_growth(config.growth(), self._publisher.model, timeline, resume=resume)
            )
            generation = Generation(
                growth,
                self._buffer,
                self._publisher,
                self._algorithm,
                wanted=config.steps * config.batch,
                most_barren=config.most_barren,
                timeline=timeline,
                readable=self._readable,
            )
            try:
                trained = await self._both(generation, trainer, timeline)
            except BaseException:  # also where it is cancelled: what was learnt up to here is kept
                growth.run = msgspec.structs.replace(growth.run, status="stopped", summary=self._curve())
                raise
            if trained.status == "diverged":
                trained = replace(trained, reason=await self._back(trained))
            return await asyncio.to_thread(self._conclude, trained, growth, generation, source, timeline)

    def _ends(self) -> bool:
        return self._fault is not None or self._stopping()

    async def _both(self, generation: Generation, trainer: Training, timeline: Timeline) -> TrainResult:
        loop, ready = asyncio.get_running_loop(), asyncio.Event()

        def begun() -> None:
            timeline.begin()
            loop.call_soon_threadsafe(ready.set)

        async def grow() -> None:
            await ready.wait()
            await generation.run()

        growing = asyncio.create_task(grow())
        growing.add_done_callback(self._grown)
        trains = asyncio.create_task(asyncio.to_thread(trainer.run, self._ends, begun))
        try:
            trained = await asyncio.shield(trains)
        except asyncio.CancelledError:  # the thread cannot be cancelled: have it end after its step
            self._fault = asyncio.CancelledError()
            await asyncio.wait({trains})
            raise
        finally:
            growing.cancel()
            await asyncio.gather(growing, return_exceptions=True)
        if self._fault is not None:
            raise self._fault
        return trained

    def _grown(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            self._fault = task.exception()

    async def _back(self, trained: TrainResult) -> str:
        """Have the last good version served again: the weights after it were published before their loss was known.
        Returns why the run ended, and what is served now."""
        step = 0 if trained.checkpoint is None else int(trained.checkpoint.name.rpartition("-")[2])
        try:
            name = await self._publisher.restore(step)
        except SilvaError as error:
            return f"{trained.reason}; weights that are not proven are served on, step {step} cannot be ({error})"
        return f"{trained.reason}; {name} (step {step}) is served again" if name else trained.reason

    def _curve(self) -> dict[str, Any]:
        """What the lake keeps of the curves, those of earlier sessions too."""
        return {"curve": thinned(read_curve(self._config.output))}

    def _conclude(
        self, trained: TrainResult, growth: Growth, generation: Generation, source: BufferSource, timeline: Timeline
    ) -> OnlineResult:
        spans = list(timeline.spans)
        end = timeline.now()
        settled = steady(spans)
        staleness = {age: source.staleness.count(age) for age in sorted(set(source.staleness))}
        result = OnlineResult(
            status=trained.status,
            step=trained.step,
            reason="it was told to stop" if trained.status == "interrupted" else trained.reason,
            policy=trained.policy,
            checkpoint=trained.checkpoint,
            whole=measure(spans, growth.pool, 0.0, end),
            steady=None if settled is None else measure(spans, growth.pool, *settled),
            barren=dict(generation.barren),
            staleness=staleness,
            spans=spans,
        )
        said = {
            "run": self._config.run,
            "mode": self._config.mode,
            "bound": self._config.bound,
            "status": result.status,
            "step": result.step,
            "session": timeline.session,
            "whole": msgspec.to_builtins(result.whole),
            "steady": msgspec.to_builtins(result.steady),
            "barren": result.barren,
            "staleness": {str(age): count for age, count in staleness.items()},
        }
        output = self._config.output
        with disk_refusals(SUMMARY):
            write_whole(output / SUMMARY, msgspec.json.format(msgspec.json.encode(said), indent=2) + b"\n")
            write_whole(output / PAGE, page(self._config.run, said, spans, growth.pool).encode())
        status = "finished" if result.status == "finished" else "stopped"
        growth.run = msgspec.structs.replace(growth.run, status=status, summary=said | self._curve())
        return result

"""The buffer as a trainer's source: it takes the next step's groups, and before that hands over what the last one made.

    take ─▶ a step was trained since? weights ─▶ publish ─▶ commit(cursor, step) ─▶ wait for groups ─▶ samples

The trainer's checkpoint is written before it takes again, so the order is: checkpoint, publish, commit. `position` is
the buffer's cursor. Called in the trainer's thread; buffer and publisher live in an event loop.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

from silva.train.buffer.buffer import Buffer
from silva.train.engines.engine import Engine
from silva.train.online.publisher import Publisher
from silva.train.online.timeline import Timeline
from silva.train.output import disk_refusals
from silva.train.sample import Sample

T = TypeVar("T")

LOOK = 0.5
"""Seconds one call waits for groups before it is seen whether the run is to stop."""


class BufferSource:
    """See the module; a `Source` (silva.train.sources).

    Args:
        buffer: the job.
        publisher: serves what was trained.
        engine: holds the weights.
        folder: where weights on their way to the publisher are written.
        loop: of buffer and publisher.
        every: steps from checkpoint to checkpoint.
        timeline: told how the trainer's time goes.
        stopping: asked while it waits; True ends the wait.

    Attributes:
        staleness: of every group that was taken, in versions.
    """

    def __init__(
        self,
        buffer: Buffer,
        publisher: Publisher,
        engine: Engine,
        folder: Path,
        loop: asyncio.AbstractEventLoop,
        *,
        every: int,
        timeline: Timeline,
        stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        self.position = 0
        self._buffer, self._publisher, self._engine = buffer, publisher, engine
        self._folder, self._loop, self._every = folder, loop, every
        self._timeline, self._stopping = timeline, stopping
        self._served = 0
        self._checkpoints = (0, 0)
        self._training: float | None = None
        self.staleness: list[int] = []

    def seek(self, position: int) -> None:
        """Go on after that many groups; `align` tells the buffer."""
        self.position = position
        self._checkpoints = (position, position)

    def align(self) -> None:
        """Serve the weights as they are and bring the buffer to where the trainer is; before anything is grown.

        Raises:
            Refused: the buffer's job is of another run.
            UnreachableError: the weights cannot be served.
        """
        step = self._engine.step
        if step:
            self._publish(step)
        else:
            self._call(self._publisher.restore(0))
        status = self._call(self._buffer.status())
        if status.committed > self.position or status.version > step:
            self._call(self._buffer.rewind(self.position, step))
        else:
            kept = min(status.checkpointed, self.position)
            self._call(self._buffer.commit(self.position, step, checkpointed=kept))
        self._served = step

    def take(self, count: int) -> list[list[Sample]]:
        """The groups of the next step; none where the run is to stop."""
        self.hand_over()
        start = self._timeline.now()
        found = []
        while len(found) < count:
            if self._stopping():
                return []
            found += self._call(self._buffer.take(self.position + len(found), count - len(found), wait=LOOK))
        self._timeline.add("wait", start, step=self._engine.step)
        self.staleness += [delivery.staleness for delivery in found]
        self.position = found[-1].number
        groups = [[Sample.from_bytes(data) for data in delivery.group.samples] for delivery in found]
        self._training = self._timeline.now()
        return groups

    def hand_over(self, *, checkpointed: bool = False) -> None:
        """Publish and commit what was trained since the last time, if anything.

        The buffer keeps what was trained since the last checkpoint but one: the weights of the newest are proven by the
        step after it, and where that finds them bad the trainer goes back further.

        Args:
            checkpointed: this is the end of the run, its weights proven and kept.
        """
        if self._training is not None:
            self._timeline.add("train", self._training, step=self._engine.step)
            self._training = None
        step = self._engine.step
        if step == self._served:
            return
        if checkpointed:
            self._checkpoints = (self.position, self.position)
        elif step % self._every == 0:
            self._checkpoints = (self._checkpoints[1], self.position)
        with self._timeline.span("publish", step=step):
            self._publish(step)
        with self._timeline.span("commit", step=step):
            self._call(self._buffer.commit(self.position, step, checkpointed=self._checkpoints[0]))
        self._served = step

    def _publish(self, step: int) -> None:
        folder = self._folder / f"step-{step:06d}"
        shutil.rmtree(folder, ignore_errors=True)  # of a process that was killed
        with disk_refusals(f"the weights of step {step}"):
            folder.parent.mkdir(parents=True, exist_ok=True)
            self._engine.save_weights_for_sampler(folder)
        self._call(self._publisher.publish(folder, step))

    def _call(self, call: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(call, self._loop).result()

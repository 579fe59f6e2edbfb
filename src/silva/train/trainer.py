"""The trainer: drives an engine from a source, step by step, until it is done, told to stop, or has diverged.

    source.take ─▶ forward_backward ─▶ loss sound? ─▶ optim_step ─▶ gradient sound? ─▶ a point on the curves
                                          │ no                          │ no             every so often: checkpoint
                                          └────────▶ stop: checkpoints of these weights set aside, the last good stays

A checkpoint holds the engine's state, the source's position and the losses that divergence is judged by. A run that
was killed goes on from the last one with the numbers it would have had. The weights of step n are proven by the loss of
step n + 1; those of the last step by one more look at its samples.

With several processes each has a trainer; they decide alike, because every number they decide by is the whole step's,
and the first of them writes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from silva.errors import UsageError
from silva.train.checkpoint import Checkpoints, write_folder
from silva.train.config import TrainConfig
from silva.train.curves import Point, Sink
from silva.train.divergence import DivergenceWatch
from silva.train.engines.engine import Engine, StepResult, Update
from silva.train.engines.group import ALONE, Group
from silva.train.output import CHECKPOINTS, ENGINE
from silva.train.sample import Sample
from silva.train.schedule import learning_rate
from silva.train.sources import Source

if TYPE_CHECKING:
    from silva.train.algorithms import Algorithm

TRAINER, WEIGHTS = "trainer.json", "weights"
POLICY = "policy"
"""The folder of the finished policy in the output folder."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainResult:
    """How a run ended after `step` updates. `policy` is the finished policy's folder, `checkpoint` the last good
    checkpoint's; `reason` says why it did not finish."""

    status: Literal["finished", "interrupted", "diverged"]
    step: int
    reason: str = ""
    policy: Path | None = None
    checkpoint: Path | None = None


class Trainer:
    """One training run.

    Args:
        config: of the run.
        engine: the weights.
        algorithm: the loss.
        source: of groups.
        sinks: where curves go.
        held_out: samples to measure, laid out as the algorithm takes them.
        group: the processes that train together.
    """

    def __init__(
        self,
        config: TrainConfig,
        engine: Engine,
        algorithm: Algorithm,
        source: Source,
        sinks: Sequence[Sink] = (),
        held_out: Sequence[Sample] = (),
        group: Group = ALONE,
    ) -> None:
        self._config, self._engine, self._algorithm, self._source = config, engine, algorithm, source
        self._sinks, self._held_out, self._group = list(sinks), list(held_out), group
        self._checkpoints = Checkpoints(config.output / CHECKPOINTS, config.checkpoints.keep)
        self._watch = DivergenceWatch(config.divergence)

    def follow(self, sinks: Sequence[Sink]) -> None:
        """Send the curves here from now on."""
        self._sinks = list(sinks)

    def resume(self) -> int:
        """Go on from the last checkpoint; return its step, 0 where there is none.

        Raises:
            UsageError: it cannot be read, or is of another setup.
        """
        last = self._checkpoints.latest()
        if last is None:
            return 0
        try:
            said = json.loads((last / TRAINER).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise UsageError(f"checkpoint {last.name}: {TRAINER} cannot be read ({error})") from error
        mine = json.loads(json.dumps(self._config.decisive()))
        for name in sorted(set(mine) | set(said["decisive"])):
            if mine.get(name) != said["decisive"].get(name):
                raise UsageError(f"checkpoint {last.name}: {name} was another; resume with what the run began with")
        self._engine.load_state(last / ENGINE)
        self._source.seek(int(said["position"]))
        self._watch = DivergenceWatch(self._config.divergence, said["losses"])
        return self._engine.step

    def run(self, stopping: Callable[[], bool] = lambda: False) -> TrainResult:
        """Train up to the configured number of steps.

        Args:
            stopping: asked between steps; True ends the run after a checkpoint.

        Raises:
            StoreError: a checkpoint cannot be written; the last good one stays.
            SampleError, BatchError: a sample cannot be trained on.
            LostTouch: another process of the run is gone.
        """
        steps = self._config.steps
        samples: list[Sample] = []
        written = self._engine.step
        if self._held_out and not self._engine.step:
            self._measure({})
        while self._engine.step < steps:
            if self._group.agreed(stopping()):
                return self._stopped("interrupted", "it was told to stop", written)
            samples = [sample for group in self._source.take(self._config.batch) for sample in group]
            if not samples:
                return self._stopped("interrupted", "the source has no more groups", written)
            result = self._engine.forward_backward(samples, self._algorithm)
            if reason := self._watch.of_loss(result.loss):
                return self._diverged(reason, result)
            update = self._engine.optim_step(learning_rate(self._engine.step, steps, self._config.optimiser))
            if reason := self._watch.of_gradient(update.gradient_norm):
                return self._diverged(reason, result)
            self._measure(_values(result, update))
            if self._engine.step % self._config.checkpoints.every == 0 and self._engine.step < steps:
                self._checkpoint()
                written = self._engine.step
        if samples and (reason := self._watch.of_loss(self._engine.evaluate(samples, self._algorithm).loss)):
            return self._diverged(reason, None)
        checkpoint = self._checkpoint()
        policy = write_policy(self._engine, self._config.output, self._group)
        return TrainResult(status="finished", step=self._engine.step, policy=policy, checkpoint=checkpoint)

    def _stopped(self, status: Literal["interrupted"], reason: str, written: int) -> TrainResult:
        checkpoint = self._checkpoints.latest() if written == self._engine.step else self._checkpoint()
        return TrainResult(status=status, step=self._engine.step, reason=reason, checkpoint=checkpoint)

    def _diverged(self, reason: str, result: StepResult | None) -> TrainResult:
        if result is not None:
            self._write(Point(step=self._engine.step + 1, values={"loss": result.loss, **result.metrics}))
        if self._group.leads:
            self._checkpoints.set_aside(self._engine.step)
        return TrainResult(
            status="diverged", step=self._engine.step, reason=reason, checkpoint=self._checkpoints.latest()
        )

    def _measure(self, values: dict[str, float]) -> None:
        step = self._engine.step
        due = step % self._config.held_out_every == 0 or step == self._config.steps
        if self._held_out and due:
            found = self._engine.evaluate(self._held_out, self._algorithm)
            values = {**values, "held_out_loss": found.loss}
            values |= {f"held_out_{name}": value for name, value in found.metrics.items()}
        self._write(Point(step=step, values=values))

    def _write(self, point: Point) -> None:
        for sink in self._sinks:
            sink.write(point)

    def _checkpoint(self) -> Path:
        said = {
            "step": self._engine.step,
            "position": self._source.position,
            "losses": self._watch.losses,
            "decisive": self._config.decisive(),
        }

        def fill(folder: Path) -> None:
            (folder / ENGINE).mkdir()
            self._engine.save_state(folder / ENGINE)
            if self._config.checkpoints.weights:
                self._engine.save_weights_for_sampler(folder / WEIGHTS)
            (folder / TRAINER).write_text(json.dumps(said), encoding="utf-8")

        if self._group.leads:
            return self._checkpoints.write(self._engine.step, fill)
        # weights may lie in parts: every process takes part in what the first writes
        self._engine.save_state(self._config.output)
        if self._config.checkpoints.weights:
            self._engine.save_weights_for_sampler(self._config.output)
        return self._config.output / CHECKPOINTS / f"step-{self._engine.step:06d}"


def write_policy(engine: Engine, output: Path, group: Group = ALONE) -> Path:
    """Write an engine's present weights as the finished policy of an output folder; the first process does.

    Raises:
        StoreError: the disk refused.
    """

    def fill(folder: Path) -> None:
        made = engine.save_weights_for_sampler(folder / WEIGHTS)
        for file in made.iterdir():
            file.rename(folder / file.name)
        made.rmdir()

    if not group.leads:
        engine.save_weights_for_sampler(output)
        return output / POLICY
    return write_folder(output / POLICY, fill)


def _values(result: StepResult, update: Update) -> dict[str, float]:
    values = {"loss": result.loss, **result.metrics}
    values |= {"gradient_norm": update.gradient_norm, "learning_rate": update.learning_rate}
    values |= {"tokens": float(result.tokens), "loss_tokens": float(result.loss_tokens)}
    return values | {"tokens_per_second": result.tokens / max(result.seconds, 1e-9)}

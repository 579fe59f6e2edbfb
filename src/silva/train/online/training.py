"""The training side of an online run: who takes groups, changes the weights, and has them served.

engine: local      `LocalTraining`: Silva's trainer and engine
engine: trl-async  `TrlTraining` (silva.train.online.trl_async): TRL's asynchronous trainer
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from silva.train.config import TrainConfig
from silva.train.curves import Sink
from silva.train.engines.engine import Engine
from silva.train.online.source import BufferSource
from silva.train.trainer import Trainer, TrainResult

if TYPE_CHECKING:
    from silva.train.algorithms import Algorithm
    from silva.train.online.config import OnlineConfig


class Training(Protocol):
    """One training, in a thread of its own."""

    def follow(self, sinks: Sequence[Sink]) -> None:
        """Send the curves here."""
        ...

    def resume(self) -> int:
        """Go on from the last checkpoint; return its step, 0 where there is none.

        Raises:
            UsageError: it cannot be read, or is of another setup.
        """
        ...

    def run(self, stopping: Callable[[], bool], begun: Callable[[], None]) -> TrainResult:
        """Train up to the configured number of steps, each published and committed.

        Args:
            stopping: asked between steps; True ends the run after a checkpoint.
            begun: called once, when the weights it begins with are served and the buffer is aligned: groups may grow.

        Raises:
            StoreError: a checkpoint cannot be written; the last good one stays.
            SampleError, BatchError: a sample cannot be trained on.
            UnreachableError: the weights cannot be served.
        """
        ...


class LocalTraining:
    """See the module; a `Training`."""

    def __init__(self, config: TrainConfig, engine: Engine, algorithm: Algorithm, source: BufferSource) -> None:
        self._source = source
        self._trainer = Trainer(config, engine, algorithm, source)

    def follow(self, sinks: Sequence[Sink]) -> None:
        """See `Training`."""
        self._trainer.follow(sinks)

    def resume(self) -> int:
        """See `Training`."""
        return self._trainer.resume()

    def run(self, stopping: Callable[[], bool], begun: Callable[[], None]) -> TrainResult:
        """See `Training`."""
        self._source.align()
        begun()
        result = self._trainer.run(stopping)
        if result.status == "finished":
            self._source.hand_over(checkpointed=True)
        return result


def training(config: OnlineConfig, engine: Any, algorithm: Algorithm, source: BufferSource) -> Training:
    """The training that a configuration's engine is for.

    Args:
        config: of the run.
        engine: an `Engine`, or the `TrlEngine` where the configuration says so.
        algorithm: scores and loss.
        source: of groups.
    """
    if config.engine == "trl-async":
        from silva.train.online.trl_async.training import TrlTraining

        return TrlTraining(config, engine, source)
    return LocalTraining(config, engine, algorithm, source)

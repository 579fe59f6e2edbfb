"""Curves for the trackers people have: each library is imported when it is asked for; its absence is one line, and so
is what it refuses."""

from __future__ import annotations

import importlib
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from silva.errors import MissingError, UnreachableError
from silva.train.config import TrainConfig
from silva.train.curves import Point, Sink


def trackers(config: TrainConfig) -> list[Sink]:
    """Those that a run's configuration names.

    Raises:
        MissingError: a library is not installed.
        UnreachableError: a tracker cannot be reached, or refuses.
    """
    found: list[Sink] = []
    if config.curves.tensorboard:
        found.append(TensorBoard(config.output / "tensorboard"))
    if config.curves.wandb is not None:
        found.append(Wandb(config))
    if config.curves.mlflow is not None:
        found.append(MLflow(config))
    return found


class TensorBoard:
    """Event files as TensorBoard reads them.

    Args:
        folder: where to.

    Raises:
        MissingError: tensorboard is not installed.
    """

    def __init__(self, folder: Path) -> None:
        writer = _library("tensorboard.summary.writer.event_file_writer", "tensorboard")
        self._events = _library("tensorboard.compat.proto.event_pb2", "tensorboard")
        self._summaries = _library("tensorboard.compat.proto.summary_pb2", "tensorboard")
        folder.mkdir(parents=True, exist_ok=True)
        self._writer: Any = writer.EventFileWriter(str(folder))

    def write(self, point: Point) -> None:
        """One scalar a value."""
        values = [self._summaries.Summary.Value(tag=tag, simple_value=value) for tag, value in point.values.items()]
        summary = self._summaries.Summary(value=values)
        self._writer.add_event(self._events.Event(wall_time=time.time(), step=point.step, summary=summary))

    def close(self) -> None:
        """Bring it to disk."""
        self._writer.close()


class Wandb:
    """A run in a project of Weights & Biases; a resumed run goes on in the same one.

    Args:
        config: of the run; `curves.wandb` is the project.

    Raises:
        MissingError: wandb is not installed.
        UnreachableError: it has no key, or does not answer.
    """

    def __init__(self, config: TrainConfig) -> None:
        library = _library("wandb", "wandb")
        self._refusal: type[Exception] = library.Error
        with _told("wandb", self._refusal):
            self._run: Any = library.init(
                project=config.curves.wandb,
                name=config.run,
                id=config.run,
                resume="allow",
                dir=str(config.output),
                config=config.model_dump(mode="json", exclude={"output"}),
            )

    def write(self, point: Point) -> None:
        """Log the point.

        Raises:
            UnreachableError: it refuses.
        """
        with _told("wandb", self._refusal):
            self._run.log(dict(point.values), step=point.step)

    def close(self) -> None:
        """End the run.

        Raises:
            UnreachableError: it refuses.
        """
        with _told("wandb", self._refusal):
            self._run.finish()


class MLflow:
    """A run in an experiment of MLflow; a resumed run begins another one there, of the same name.

    Args:
        config: of the run; `curves.mlflow` is the experiment.

    Raises:
        MissingError: mlflow is not installed.
        UnreachableError: its server does not answer, or MLFLOW_TRACKING_URI names a store it cannot write.
    """

    def __init__(self, config: TrainConfig) -> None:
        self._library = _library("mlflow", "mlflow-skinny")
        self._refusal: type[Exception] = self._library.MlflowException
        with _told("mlflow", self._refusal):
            self._library.set_experiment(config.curves.mlflow)
            self._run: Any = self._library.start_run(run_name=config.run)
            decisive = {"algorithm": config.algorithm.name, "seed": config.seed, "steps": config.steps}
            self._library.log_params(decisive | config.optimiser.model_dump(mode="json"))

    def write(self, point: Point) -> None:
        """Log the point.

        Raises:
            UnreachableError: it refuses.
        """
        with _told("mlflow", self._refusal):
            self._library.log_metrics(dict(point.values), step=point.step)

    def close(self) -> None:
        """End the run.

        Raises:
            UnreachableError: it refuses.
        """
        with _told("mlflow", self._refusal):
            self._library.end_run()


@contextmanager
def _told(name: str, refusal: type[Exception]) -> Iterator[None]:
    """What a tracker refuses, in one line."""
    try:
        yield
    except refusal as error:
        said = " ".join(str(error).split())[:200]
        raise UnreachableError(f"curves.{name}: {said}; curves.jsonl has the curve in any case") from error


def _library(module: str, package: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingError(f"curves for {package} need it installed: pip install 'silva[trackers]'") from error

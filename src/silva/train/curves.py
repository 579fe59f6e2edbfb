"""Learning curves: one point a step, to every place that was asked for.

    Point ─▶ curves.jsonl in the output folder (always) ─┬▶ terminal
                                                         ├▶ the run's record in the lake, at the start and at the end
                                                         └▶ TensorBoard, Weights & Biases, MLflow (`trackers`)

The file is the truth: a resumed run cuts off what came after its checkpoint and writes on.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TextIO

import silva
from silva.errors import UsageError
from silva.lake import Lake
from silva.lake.durable import sync_file
from silva.train.config import TrainConfig
from silva.train.output import disk_refusals
from silva.tree import Lineage, Run

FILE = "curves.jsonl"
_MOST_POINTS = 200
"""Points the lake's record holds; of a longer run every n-th."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Point:
    """The values of one step, by name; the first step is 1."""

    step: int
    values: Mapping[str, float]


class Sink(Protocol):
    """Where points go."""

    def write(self, point: Point) -> None:
        """Take a point."""
        ...

    def close(self) -> None:
        """There will be no more."""
        ...


class CurveFile:
    """`curves.jsonl`: an object a line with `step` and the values; a value that is no finite number is null.

    Args:
        folder: that holds it.
        after: the step the run goes on from; later lines are cut off.

    Every method raises StoreError where the disk refuses.
    """

    def __init__(self, folder: Path, after: int = 0) -> None:
        self._path = folder / FILE
        kept = [point for point in read_curve(folder) if point.step <= after]
        draft = self._path.with_suffix(".draft")
        with disk_refusals(FILE):
            draft.write_text("".join(map(_line, kept)), encoding="utf-8")
            draft.replace(self._path)
            self._file = self._path.open("a", encoding="utf-8")

    def write(self, point: Point) -> None:
        """Append a point; it outlives this process at once."""
        with disk_refusals(FILE):
            self._file.write(_line(point))
            self._file.flush()

    def close(self) -> None:
        """Bring it to disk."""
        with disk_refusals(FILE):
            self._file.close()  # also where it raises: what it could not write is tried once more
            sync_file(self._path)


def read_curve(folder: Path) -> list[Point]:
    """The points of an output folder; a last line that was cut short is left out.

    Raises:
        UsageError: another line is none.
    """
    path = folder / FILE
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    found: list[Point] = []
    for number, line in enumerate(lines):
        try:
            values = json.loads(line)
            step = int(values.pop("step"))
        except (ValueError, KeyError, AttributeError, TypeError) as error:
            if number == len(lines) - 1:
                break
            raise UsageError(f"{path.name}: line {number + 1} is no point of a curve") from error
        read = {name: math.nan if value is None else float(value) for name, value in values.items()}
        found.append(Point(step=step, values=read))
    return found


class TerminalCurve:
    """One line every so many steps.

    Args:
        out: where to.
        steps: of the run.
        every: how many steps a line.
    """

    def __init__(self, out: TextIO, steps: int, every: int = 1) -> None:
        self._out, self._steps, self._every = out, steps, every

    def write(self, point: Point) -> None:
        """Print the point if it is its turn."""
        if point.step % self._every and point.step != self._steps:
            return
        told = "  ".join(f"{name.replace('_', ' ')} {value:.4g}" for name, value in point.values.items())
        self._out.write(f"step {point.step}/{self._steps}  {told}\n")
        self._out.flush()

    def close(self) -> None:
        """Nothing to do."""


class LakeCurve:
    """The run's record in a lake: its configuration, and in the end its status and curve. The lake is opened for these
    two moments only, so that rollouts may write to it meanwhile.

    Args:
        location: of the lake.
        config: of the run.
        parents: the data it is trained on, by name.
        points: of the run before it was resumed.

    Raises:
        UsageError: a run of another command has this name.
        StoreError: the lake cannot be written.
    """

    def __init__(
        self, location: str, config: TrainConfig, parents: Sequence[str] = (), points: Sequence[Point] = ()
    ) -> None:
        self._location, self._config, self._parents = location, config, tuple(parents)
        self._points = list(points)
        self._started = time.time()
        self.status = "interrupted"
        self._record("running", 0.0)

    def write(self, point: Point) -> None:
        """Keep the point for the record."""
        self._points.append(point)

    def close(self) -> None:
        """Write the record of the end, with `status`."""
        self._record(self.status, time.time())

    def _record(self, status: str, finished: float) -> None:
        summary: dict[str, Any] = {"curve": thinned(self._points)}
        with Lake.open(self._location) as lake:
            there = lake.run(self._config.run)
            if there is not None and there.command != "train":
                raise UsageError(f"lake {lake.location}: {self._config.run} is a {there.command}; choose another name")
            lake.append_sync(
                [
                    Run(
                        id=self._config.run,
                        command="train",
                        model=self._config.policy.weights,
                        agent=self._config.algorithm.name,
                        seed=self._config.seed,
                        config=self._config.model_dump(mode="json"),
                        lineage=Lineage(code=f"silva {silva.__version__}", parents=self._parents),
                        status=status,
                        started=self._started,
                        finished=finished,
                        summary=summary,
                    )
                ]
            )


def thinned(points: Sequence[Point]) -> list[dict[str, Any]]:
    """A curve as a run's record in a lake holds it: a bounded number of its points, the last one among them."""
    stride = max(1, -(-len(points) // _MOST_POINTS))
    return [json.loads(_line(point)) for point in (*points[:-1:stride], *points[-1:])]


def _line(point: Point) -> str:
    values = {name: value if math.isfinite(value) else None for name, value in point.values.items()}
    return json.dumps({"step": point.step, **values}) + "\n"

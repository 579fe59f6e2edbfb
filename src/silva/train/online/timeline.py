"""Who worked and who waited: spans of a monotonic clock, kept line by line, and what they add up to.

    rollout     one trajectory in growth, on one of the pool's lanes
    held        generation waits for a permit: as much is under way as the bound allows
    wait        training waits for groups
    train       forward, backward, the update, a checkpoint
    publish     the new weights are written and served; commit: the buffer is told

Seconds count from the beginning of the session: a clock that is monotonic begins anew with every process.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, TextIO

import msgspec

from silva.errors import UsageError
from silva.train.output import disk_refusals
from silva.tree import Record

FILE = "timeline.jsonl"

Kind = Literal["rollout", "held", "wait", "train", "publish", "commit"]
TRAINING: tuple[Kind, ...] = ("wait", "train", "publish", "commit")


class Span(Record, frozen=True, kw_only=True):
    """One stretch of one side's time, in seconds of its session. `step` is the version trained or published, `group`
    and `lane` are a rollout's."""

    kind: Kind
    start: float
    end: float
    session: int = 0
    step: int = -1
    lane: int = -1
    group: str = ""


class Idle(Record, frozen=True, kw_only=True):
    """How a stretch of `seconds` was spent; shares of it. `generation`: of the pool's lanes, on average, without a
    trajectory in growth. `held`: generation waited for a permit. `training`: the trainer waited for groups.
    `publishing`: it wrote and published weights, and told the buffer. `trajectories` ended in it; `windows` step
    windows, from one version's commit to the next's, of `window_seconds` on average, with `per_window` trajectories."""

    seconds: float
    generation: float
    held: float
    training: float
    publishing: float
    trajectories: int
    windows: int
    window_seconds: float
    per_window: float


class Timeline:
    """Collects spans; safe to use from several threads. Methods raise StoreError where the disk refuses.

    Args:
        folder: where they are kept, in `timeline.jsonl`; None keeps them in memory alone.
        session: the number of this process's part of the run; None counts on from the file.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.spans: list[Span] = []
        self.session = 0
        self._began = time.monotonic()
        self._guard = threading.Lock()
        self._file: TextIO | None = None
        if folder is not None:
            before = read_timeline(folder)
            self.session = max((span.session for span in before), default=-1) + 1
            with disk_refusals(FILE):
                (folder / FILE).write_bytes(b"".join(map(_line, before)))  # without a line that was cut short
                self._file = (folder / FILE).open("a", encoding="utf-8")

    def begin(self) -> None:
        """The session's time begins now."""
        self._began = time.monotonic()

    def now(self) -> float:
        """Seconds since the session began."""
        return time.monotonic() - self._began

    def add(self, kind: Kind, start: float, *, step: int = -1, lane: int = -1, group: str = "") -> None:
        """A span from `start` to now."""
        span = Span(kind=kind, start=start, end=self.now(), session=self.session, step=step, lane=lane, group=group)
        with self._guard:
            self.spans.append(span)
            if self._file is not None:
                with disk_refusals(FILE):
                    self._file.write(_line(span).decode())
                    self._file.flush()

    @contextmanager
    def span(self, kind: Kind, *, step: int = -1, lane: int = -1, group: str = "") -> Iterator[None]:
        """A span around a block; none where the block fails."""
        start = self.now()
        yield
        self.add(kind, start, step=step, lane=lane, group=group)

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            file, self._file = self._file, None
            with disk_refusals(FILE):  # what could not be written is tried once more
                file.close()


def read_timeline(folder: Path) -> list[Span]:
    """The spans of an output folder; a last line that was cut short is left out.

    Raises:
        UsageError: another line is none.
    """
    path = folder / FILE
    lines = path.read_bytes().splitlines() if path.is_file() else []
    found: list[Span] = []
    for number, line in enumerate(lines):
        try:
            found.append(_decode(line))
        except msgspec.DecodeError as error:
            if number == len(lines) - 1:
                break
            raise UsageError(f"{FILE}: line {number + 1} is no span; remove the file to begin it anew") from error
    return found


def measure(spans: Sequence[Span], pool: int, start: float, end: float) -> Idle:
    """What the spans of one session say of the time from `start` to `end`, with `pool` lanes.

    Raises:
        ValueError: no time lies between the two.
    """
    if end <= start:
        raise ValueError(f"no time from {start} to {end}")
    seconds = end - start

    def spent(*kinds: Kind) -> float:
        found = (span for span in spans if span.kind in kinds)
        return sum(max(0.0, min(span.end, end) - max(span.start, start)) for span in found)

    ended = sum(span.kind == "rollout" and start < span.end <= end for span in spans)
    commits = sorted(span.end for span in spans if span.kind == "commit" and start <= span.end <= end)
    windows = max(0, len(commits) - 1)
    within = sum(span.kind == "rollout" and commits[0] < span.end <= commits[-1] for span in spans) if windows else 0
    return Idle(
        seconds=seconds,
        generation=1 - spent("rollout") / (pool * seconds),
        held=spent("held") / seconds,
        training=spent("wait") / seconds,
        publishing=spent("publish", "commit") / seconds,
        trajectories=ended,
        windows=windows,
        window_seconds=(commits[-1] - commits[0]) / windows if windows else 0.0,
        per_window=within / windows if windows else 0.0,
    )


def steady(spans: Sequence[Span]) -> tuple[float, float] | None:
    """From the first version's commit to the last trajectory's beginning: without the first groups, for which nothing
    could be trained yet, and without the end, where nothing is left to grow. None in a run too short to have that."""
    commits = [span.end for span in spans if span.kind == "commit" and span.step > 0]
    begun = [span.start for span in spans if span.kind == "rollout"]
    if not commits or not begun or max(begun) <= commits[0]:
        return None
    return commits[0], max(begun)


def _line(span: Span) -> bytes:
    return json.dumps(msgspec.to_builtins(span)).encode() + b"\n"


_decode = msgspec.json.Decoder(Span).decode

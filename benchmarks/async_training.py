"""Generation and training side by side or in turns: how long does each wait, how much is grown in a step's time?

    python benchmarks/async_training.py [--part even|tailed] [--steps 9] [--quick]

The whole online run (silva.train.online) with a scripted model whose latencies are drawn from a long-tailed distribution by the request's
content, so that every mode meets the same ones, and an engine that takes a fixed time a step. That time is as long as generation takes:
trajectories a step x measured mean seconds of one / lanes, which is what generation needs if no lane ever stands still.

    even      latencies lognormal, sigma 0.5, many trajectories a lane and step: the figure is generation's idle share at staleness 1
    tailed    sigma 0.9, four trajectories a lane and step: the figure is trajectories in a synchronous step's time, against the synchronous
              mode's own

Synchronous: all groups of a step are grown, the slowest trajectory is waited for, then the step is trained and the version published, in
turn; `mode: sync`, the same code. Publishing costs nothing here, which favours it. A *step window* is the time from one version's commit
to the next's; trajectories are counted that were trained, nothing is grown to be thrown away.

What can be had. In turns a window is G + T: G the batch's time with its slowest trajectory, T the step's. Side by side it is at least T, so
(G + T) / T is the ceiling. At staleness 1 the groups of one version are all that may grow while one step is trained, and all are due in the
next: a window is at least (G + T) / 2, so the ceiling there is 2. It takes more to hide the slowest trajectory as well.

Safactory (figure 20) counts otherwise: 1277.78 trajectories generated in the window of a step that trains 512 of them, against 512 of
slime's asynchronous mode at staleness 1, whose rollout side stood still half of the time. 2.49 is that ratio.

`trajectories`: in the time of a synchronous step window; `ratio` is that against the synchronous mode's own. `stale`: groups trained, by
how many versions old.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from report import RESULTS, Measurement, arguments, hand_in, load
from silva.models.scripted import Script
from silva.models.scripted.latency import Latency
from silva.train.algorithms.advantages import score
from silva.train.buffer import Jobs
from silva.train.online.drawing import figure
from silva.train.online.run import OnlineResult, OnlineRun
from silva.train.sample import Sample

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "train"))
from online_parts import Compared, CountingEngine, configured, stamped_process

IDLE_BAR, WINDOW_BAR = 0.05, 2.49


@dataclass(frozen=True)
class Work:
    """What is grown: lanes, groups a step, attempts a group, median and sigma of a trajectory's latency."""

    pool: int
    batch: int
    group: int
    median: float
    sigma: float
    modes: tuple[int, ...]

    @property
    def trajectories(self) -> int:
        """A step's."""
        return self.batch * self.group


WORK = {
    "even": Work(pool=8, batch=16, group=8, median=0.22, sigma=0.5, modes=(0, 1)),
    "tailed": Work(pool=32, batch=32, group=4, median=1.2, sigma=0.9, modes=(0, 1, 2, 3)),
}


class Kept(Compared):
    """Scores groups and keeps those whose rewards are alike, so that every mode trains the same ones."""

    def score(self, group: Sequence[Sample]) -> Any:
        return score(group, keep_zero_variance=True, mixed_versions=True)


async def play(folder: Path, work: Work, staleness: int, steps: int, seconds: float) -> OnlineResult:
    """One run."""
    latency = Latency(kind="lognormal", mean=work.median, spread=work.sigma, longest=12 * work.median)
    parts = str(Path(__file__).parents[1] / "tests" / "train")
    script = Script(function="online_parts.py:half_right", folder=parts, latency=latency, seed=7)
    fields: dict[str, Any] = {"mode": "async" if staleness else "sync", "steps": steps}
    fields |= {"batch": work.batch, "group": work.group}
    fields |= {"rollout": {"pool": work.pool, "tasks": {"split": "train", "limit": work.batch * steps}}}
    if staleness:
        fields["staleness"] = staleness
    config = configured(folder, **fields)
    config.output.mkdir(parents=True)
    async with Jobs(config.output / "buffer") as jobs, stamped_process(script) as publisher:
        buffer = jobs.open("online", config.terms(True))
        return await OnlineRun(config, CountingEngine(seconds), Kept(), buffer, publisher).run()


def part(name: str, scratch: Path, steps: int) -> list[dict[str, Any]]:
    """All modes of one kind of work."""
    work = WORK[name]
    first = asyncio.run(play(scratch / f"{name}-first", work, 0, 2, 0.0))
    grown = [span.end - span.start for span in first.spans if span.kind == "rollout"]
    training = work.trajectories * sum(grown) / len(grown) / work.pool
    rows: list[dict[str, Any]] = []
    window = 0.0
    for staleness in work.modes:
        result = asyncio.run(play(scratch / f"{name}-{staleness}", work, staleness, steps, training))
        idle = result.steady
        assert idle is not None and idle.windows > 1
        window = window or idle.window_seconds
        ratio = window / idle.window_seconds
        rows.append(
            {
                "work": name,
                "mode": f"staleness {staleness}" if staleness else "synchronous",
                "train_s": round(training, 2),
                "window_s": round(idle.window_seconds, 2),
                "windows": idle.windows,
                "trajectories": round(ratio * work.trajectories, 1),
                "ratio": round(ratio, 2),
                "ceiling": round((1.0, 2.0, window / training)[min(staleness, 2)], 2),
                "idle_generation": round(idle.generation, 4),
                "idle_training": round(idle.training, 4),
                "stale": ", ".join(f"{count} by {age}" for age, count in result.staleness.items()),
            }
        )
        drawn = RESULTS / f"async_training_{name}_{staleness}.svg"
        if name == "even" and not steps < 6:
            end = 6 * max(training, 0.1)
            drawn.write_text(figure([span for span in result.spans if span.start < end], work.pool, end) + "\n")
    return rows


def main() -> int:
    """Measure, hand in."""
    parser = arguments(__doc__)
    parser.add_argument("--part", choices=sorted(WORK), help="this alone; the other's rows are kept from the file")
    parser.add_argument("--steps", type=int, default=9)
    given = parser.parse_args()
    steps = 6 if given.quick else given.steps
    before = load()
    rows: list[dict[str, Any]] = []
    for name in WORK:
        if given.part in (None, name):
            with tempfile.TemporaryDirectory(prefix="async-") as scratch:
                rows += part(name, Path(scratch), steps)
        else:
            file = RESULTS / "async_training.json"
            kept = json.loads(file.read_text())["rows"] if file.is_file() else []
            rows += [row for row in kept if row["work"] == name]
    judged = [row for row in rows if row["work"] == "even" and row["mode"] == "staleness 1"]
    idle = judged[0]["idle_generation"] if judged else 1.0
    best = max((row for row in rows if row["work"] == "tailed"), key=lambda row: row["ratio"], default=rows[0])
    measured = Measurement(
        name="async_training",
        question="Generation and training side by side: who waits, and how much is grown in a step's time?",
        bar=f"generation idle under {IDLE_BAR:.0%} at staleness 1 (even), and {WINDOW_BAR}x the trajectories (tailed, at "
        f"any staleness measured; this time {best['mode']})",
        ratio=best["ratio"],
        holds=idle < IDLE_BAR and best["ratio"] >= WINDOW_BAR,
        rows=rows,
        details={"generation_idle_at_staleness_1": idle, "best": best["mode"], "seed": 7, "steps": steps},
        quick=given.quick,
    )
    return hand_in(measured, before)


if __name__ == "__main__":
    sys.exit(main())

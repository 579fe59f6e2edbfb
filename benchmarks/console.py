"""The console under load, in a real browser: is what happens soon on the page, is it quick, does its memory stay flat?

    .venv/bin/python benchmarks/console.py [--minutes 60] [--live 200] [--seconds 2] [--parts live large]

live    so many trajectories at once write turns into one lake; Chromium has the Runs page and one run's page open. For
        each turn: from its being durable (the engine's being told so; and, never shorter, from its being handed to the
        journal) until a frame shows it. Meanwhile the memory of the pages (JavaScript heap after a forced collection,
        what the renderers hold alone) and of the console's process, with their slopes
large   a lake of 10,000 trajectories and some of 2,000 turns: the time to open one of those, each for the first time
        since the console began, from the navigation of a new browser page until its first rows are drawn; to open the
        Runs and the Lake page, and to filter

Engine, console and browser are processes of their own on one machine; its load is part of the result.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
from console_browser import Browser, Watched
from console_world import LONG_TURNS, RUN, WATCHED, make_lake

from report import Measurement, arguments, hand_in, load
from silva.tree import trajectory_id

HERE = Path(__file__).parent
UPDATE_BAR, OPEN_BAR = 0.5, 1.0
FLAT_BAR = 0.10
"""How much more the last third of the samples may hold than the second third, in the mean."""


class Served:
    """`silva console` over a lake, as people start it."""

    def __init__(self, lake: Path, folder: Path) -> None:
        command = [sys.executable, "-m", "silva", "console", "--lake", str(lake), "--trail", str(folder / "trail")]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        began = time.perf_counter()
        address = self.process.stdout.readline().strip()
        self.ready = time.perf_counter() - began
        self.url, _, self.token = address.partition("/?token=")

    def close(self) -> None:
        """End it."""
        self.process.terminate()
        self.process.wait(30)


@contextmanager
def served(lake: Path, folder: Path) -> Any:
    """A console for a while."""
    console = Served(lake, folder)
    try:
        yield console
    finally:
        console.close()


def engine(folder: Path, live: int, seconds: float, minutes: float) -> subprocess.Popen[bytes]:
    """Begin the run; enough attempts that it does not end by itself."""
    rollout = {
        "run": RUN,
        "env": [f"{HERE / 'console_world.py'}:Shells"],
        "lake": str(folder / "lake"),
        "tasks": {"limit": max(live, int(live * (2 + minutes * 60 / (seconds * 30))))},
        "pool": live,
        "budget": {"turns": 1_000_000},
        "deadlines": {"episode": 1e6},
        "hosts": {"inline": True},
    }
    (folder / "config.json").write_text(json.dumps({"rollout": rollout, "seconds": seconds}))
    command = [sys.executable, str(HERE / "console_world.py"), str(folder / "config.json"), str(folder / "acks")]
    watched = trajectory_id(RUN, "shells/0", 0, 0)
    with (folder / "engine.log").open("wb") as log:
        return subprocess.Popen(command, env={**os.environ, WATCHED: watched}, stdout=log, stderr=log)


def acknowledged(folder: Path) -> dict[str, tuple[float, float]]:
    """When each turn was handed over, and when it was durable, by its node."""
    path = folder / "acks"
    lines = path.read_text().rpartition("\n")[0].splitlines() if path.exists() else []
    return {id: (float(sent), float(durable)) for id, sent, durable in map(str.split, lines)}


def measure_live(live: int, seconds: float, minutes: float) -> dict[str, Any]:
    """A live run, watched."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run = engine(folder, live, seconds, minutes)
        try:
            deadline = time.monotonic() + 300
            while len(acknowledged(folder)) < 2 * live:
                if run.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError((folder / "engine.log").read_text()[-2000:])
                time.sleep(1)
            places = ["runs", f"run/{RUN}/{trajectory_id(RUN, 'shells/0', 0, 0)}"]
            with (
                served(folder / "lake", folder) as console,
                Watched(console.url, console.token, folder, places) as browser,
            ):
                return _watch(browser, console, folder, minutes)
        finally:
            run.kill()
            run.wait()


def _watch(browser: Watched, console: Served, folder: Path, minutes: float) -> dict[str, Any]:
    process = psutil.Process(console.process.pid)
    began = time.time()
    pause = max(5.0, min(30.0, minutes * 60 / 40))
    samples: list[dict[str, float]] = []
    loads: list[float] = []
    processor = sum(process.cpu_times()[:2])
    while time.time() - began < minutes * 60:
        time.sleep(pause)
        samples.append({"at": time.time() - began, **browser.memory(), "console": process.memory_info().rss})
        loads.append(os.getloadavg()[0])
    ended = time.time()
    counts, shown = browser.noted()
    told = acknowledged(folder)
    turns = sorted(durable for _, durable in told.values())
    inside = [at for at in turns if began <= at <= ended]
    late: dict[str, list[float]] = defaultdict(list)
    for id, at in shown:
        if id in told and told[id][0] >= began:
            late["run, from durable"].append(at - told[id][1])
            late["run, from sent"].append(at - told[id][0])
    before = None
    for count, at in counts:  # the page shows how many turns there are: which of them it shows now and did not before
        if before is not None:
            late["runs, from durable"] += [at - durable for durable in turns[int(before) : int(count)]]
        before = count
    return {
        "turns_per_second": len(inside) / (ended - began),
        "latency": {name: quantiles(values) for name, values in late.items()},
        "memory": {kind: slope([(each["at"], each[kind]) for each in samples]) for kind in MEMORY},
        "samples": samples,
        "console_processor_share": (sum(process.cpu_times()[:2]) - processor) / (ended - began),
        "load": [round(min(loads), 2), round(statistics.mean(loads), 2), round(max(loads), 2)],
        "minutes": (ended - began) / 60,
    }


MEMORY = ("heap", "nodes", "renderers", "console")


def quantiles(values: list[float]) -> dict[str, float]:
    """Of seconds."""
    ordered = sorted(values)
    if not ordered:
        return {"count": 0}
    return {
        "count": len(ordered),
        "p50": statistics.median(ordered),
        "p95": ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))],
        "most": ordered[-1],
    }


def slope(points: list[tuple[float, float]]) -> dict[str, float]:
    """How it grew, by the hour (least squares over all but the first fifth), and the thirds' means."""
    late = points[len(points) // 5 :]
    line = statistics.linear_regression(*zip(*late, strict=True)).slope * 3600 if len(late) > 2 else 0.0
    third = max(1, len(points) // 3)
    means = [statistics.mean(value for _, value in points[i * third : (i + 1) * third] or points) for i in range(3)]
    return {"an_hour": line, "first": means[0], "second": means[1], "last": means[2]}


def measure_large(trajectories: int, openings: int) -> dict[str, Any]:
    """A large lake, opened and filtered."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ids = make_lake(folder / "lake", trajectories, openings)
        found: dict[str, list[float]] = defaultdict(list)
        with served(folder / "lake", folder) as console, Browser(console.url, console.token) as browser:
            ready = console.ready
            for number, id in enumerate(ids):
                where = f"run/run-{(trajectories + number) % 20}/{id}"
                found["a trajectory of 2,000 turns, first time"].append(browser.opening(where, "[data-node]"))
                found["the same again"].append(browser.opening(where, "[data-node]"))
            for _ in range(openings):
                found["the Runs page"].append(browser.opening("runs", "tbody tr"))
                found["the Lake page"].append(browser.opening("lake", ".attempts .list .tr"))
            for number in range(openings):
                found["a filter by condition"].append(browser.filtering(f"score >= 0.{number}1 and env = 'bfcl'"))
                found["a filter by words"].append(browser.filtering(f"bench/{number}1", condition=False))
        return {"ready": ready, "openings": {name: quantiles(values) for name, values in found.items()}}


def main() -> int:
    """Measure, print, write."""
    parser = arguments(__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--live", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=2.0, help="what a turn takes the model, in the median")
    parser.add_argument("--trajectories", type=int, default=10_000)
    parser.add_argument("--openings", type=int, default=7)
    parser.add_argument("--parts", nargs="+", choices=("live", "large"), default=["live", "large"])
    given = parser.parse_args()
    if given.quick:
        given.minutes, given.live, given.trajectories, given.openings = 0.5, 50, 1_000, 3
    before = load()
    rows: list[dict[str, Any]] = []
    details: dict[str, Any] = {"load_averages": [os.getloadavg()]}
    ratios: list[float] = []
    if "large" in given.parts:
        details["large"] = large = measure_large(given.trajectories, given.openings)
        for what, found in large["openings"].items():
            rows.append(row(f"{what}, s", found, OPEN_BAR if "2,000" in what or "again" in what else None))
        ratios.append(large["openings"]["a trajectory of 2,000 turns, first time"]["p50"] / OPEN_BAR)
        details["load_averages"].append(os.getloadavg())
    flat = True
    if "live" in given.parts:
        details["live"] = live = measure_live(given.live, given.seconds, given.minutes)
        for what, found in live["latency"].items():
            rows.append(row(f"a turn is on the page: {what}, s", found, UPDATE_BAR))
        ratios += [found["p95"] / UPDATE_BAR for found in live["latency"].values() if found["count"]]
        for kind, grown in live["memory"].items():
            unit = 1 if kind == "nodes" else 1e6
            what = {"heap": "JavaScript heap, MB", "nodes": "elements", "renderers": "renderers, MB (PSS)"}
            values = [round(grown[each] / unit, 1) for each in ("first", "last", "an_hour")]
            rows.append(
                {
                    "what": f"{what.get(kind, 'console, MB (RSS)')}: first third, last third, growth an hour",
                    "p50": str(values[0]),
                    "p95": str(values[1]),
                    "most": str(values[2]),
                    "bar": "",
                }
            )
            flat &= kind == "console" or grown["last"] <= (1 + FLAT_BAR) * grown["second"]
        details["load_averages"].append(os.getloadavg())
    whole = set(given.parts) == {"live", "large"}
    measured = Measurement(
        name="console",
        question=f"The console: {given.live} live trajectories, {LONG_TURNS:,} turns, {given.trajectories:,} ended",
        bar="an update within 500 ms (p95), 2,000 turns open within 1 s (median), browser memory flat: at most 1",
        ratio=round(max(ratios), 4),
        holds=max(ratios) <= 1 and flat,
        rows=rows,
        details=details,
        versions={},
        quick=given.quick or not whole,
    )
    return hand_in(measured, before)


def row(what: str, found: dict[str, float], bar: float | None) -> dict[str, Any]:
    """A line of the table."""
    shown = {name: round(found[name], 3) if name in found else None for name in ("p50", "p95", "most")}
    return {"what": f"{what} ({found['count']})", **shown, "bar": "" if bar is None else str(bar)}


if __name__ == "__main__":
    sys.exit(main())

"""`kill -9` at random moments, resume, again: is anything acknowledged lost, is anything there twice, is anything different?

    python benchmarks/crash.py [--quick] [--seed 0]

A run of many-turn chains with a model whose replies depend on the conversation alone is killed 20 times: three times out
of four when a drawn number of further turns has been acknowledged, else at a drawn moment after its start, so that
opening, recovery and closing are hit as well. It is resumed each time, and the last leg runs to the end. Every record
whose `submit` was acknowledged is on a list outside the process. After every kill the lake is opened by a reader and must
hold all of that list. In the end the tables must hold every id once, and every tree must have the fingerprint it has in
an undisturbed run of the same configuration.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chains import chainer, write_chains
from peers.peer import HERE
from peers.server import serving
from rich.progress import track

from report import Measurement, arguments, hand_in, load
from silva.lake import Lake
from silva.models.scripted import Latency

LEG = HERE / "_crash_run.py"
RUN = "crash"
LONGEST_START = 6.0  # seconds after its start at which a leg may be killed by the clock
PATIENCE = 300.0


@dataclass
class Kill:
    """One kill: when, what had been acknowledged by then, what a reader then found."""

    by: str
    seconds: float
    acknowledged: int
    readable: int
    lost: int


def start(config: dict[str, Any], resume: bool, acks: Path, environment: dict[str, str]) -> subprocess.Popen[bytes]:
    """Start one leg."""
    return subprocess.Popen(
        [sys.executable, str(LEG), json.dumps(config), "resume" if resume else "new", str(acks)],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )


def finish(leg: subprocess.Popen[bytes]) -> None:
    """Wait for a leg to run to its end.

    Raises:
        RuntimeError: it did not end well.
    """
    _, words = leg.communicate(timeout=PATIENCE)
    if leg.returncode:
        raise RuntimeError(f"a leg ended with {leg.returncode}: {words.decode()[-1000:]}")


def acknowledged(acks: Path) -> list[str]:
    """The ids told so far; a line without its end was never finished and does not count."""
    if not acks.exists():
        return []
    whole, _, _ = acks.read_text().rpartition("\n")
    return whole.split("\n") if whole else []


def readable(lake: str) -> tuple[set[str], int]:
    """Ids a reader finds, and how many rows there are with them (more: some stand there twice)."""
    if not Path(lake).exists():
        return set(), 0
    with Lake.open(lake, mode="read") as store:
        ids = [one.id for one in store.nodes(run_id=RUN)] + [one.id for one in store.trajectories(run_id=RUN)]
    return set(ids), len(ids)


def fingerprints(lake: str) -> dict[str, str]:
    """The fingerprint of every tree."""
    with Lake.open(lake, mode="read") as store:
        trees = sorted({one.tree_id for one in store.trajectories(run_id=RUN)})
        return {tree: store.tree(tree).fingerprint() for tree in trees}


def stored_twice(lake: str) -> int:
    """Rows beyond one for each id, counted in the tables themselves."""
    with Lake.open(lake) as store:
        store.compact()
        rows = [
            store.sql(f"select count(*) - count(distinct id) as more from {table}").to_pylist()[0]["more"]
            for table in ("nodes", "trajectories")
        ]
    return sum(rows)


def kill(leg: subprocess.Popen[bytes], draw: random.Random, acks: Path, step: int) -> tuple[str, float] | None:
    """Kill the leg at a drawn moment; None when it ended by itself before that."""
    begun, already = time.monotonic(), len(acknowledged(acks))
    by_clock = draw.random() < 0.25
    wanted = already + draw.randint(1, 2 * step)
    deadline = begun + (draw.uniform(0.0, LONGEST_START) if by_clock else PATIENCE)
    while leg.poll() is None:
        if time.monotonic() >= deadline or (not by_clock and len(acknowledged(acks)) >= wanted):
            time.sleep(draw.uniform(0.0, 0.02))
            if leg.poll() is not None:
                return None
            leg.kill()
            leg.communicate()
            return ("clock" if by_clock else "turns"), time.monotonic() - begun
        time.sleep(0.002)
    return None


def look(lake: str, acks: Path, by: str, seconds: float) -> Kill:
    """What a reader finds after a kill."""
    told = set(acknowledged(acks))
    found, _ = readable(lake)
    return Kill(by, round(seconds, 2), len(told), len(found), len(told - found))


def main() -> int:
    """Kill, resume, compare."""
    parser = arguments(__doc__)
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    given = parser.parse_args()
    kills, tasks, turns, group = (4, 20, 5, 2) if given.quick else (20, 100, 8, 4)
    draw, before = random.Random(given.seed), load()
    script = chainer(Latency(kind="uniform", mean=0.05, spread=0.04))
    with tempfile.TemporaryDirectory() as scratch, serving(script) as (url, key):
        folder = Path(scratch)
        write_chains(folder / "chains.jsonl", tasks, turns)
        environment = {**os.environ, "SILVA_API_KEY": key}
        config: dict[str, Any] = {
            "run": RUN,
            "env": "arithmetic",
            "model": f"{url}#scripted",
            "pool": 16,
            "group": group,
            "tasks": {"file": str(folder / "chains.jsonl")},
            "lake": str(folder / "undisturbed"),
        }
        finish(start(config, False, folder / "undisturbed.acks", environment))
        total = len(acknowledged(folder / "undisturbed.acks"))
        wanted, whole = fingerprints(config["lake"]), readable(config["lake"])[0]

        config["lake"], acks = str(folder / "killed"), folder / "killed.acks"
        seen: list[Kill] = []
        for _ in track(range(kills), "killing", transient=True):
            leg = start(config, _has_run(config["lake"]), acks, environment)
            moment = kill(leg, draw, acks, max(1, total // (kills + 4)))
            if moment is None:
                finish(leg)
                raise SystemExit(f"the run ended after {len(seen)} of {kills} kills: give another --seed")
            seen.append(look(config["lake"], acks, *moment))
        finish(start(config, _has_run(config["lake"]), acks, environment))
        told, (found, rows) = set(acknowledged(acks)), readable(config["lake"])
        lost = len(told - found) + sum(one.lost for one in seen)
        shrank = sum(after.readable < earlier.readable for earlier, after in zip(seen, seen[1:], strict=False))
        twice = rows - len(found) + stored_twice(config["lake"])
        got = fingerprints(config["lake"])
    different = sum(got.get(tree) != mark for tree, mark in wanted.items()) + len(set(got) - set(wanted))
    astray = len(found ^ whole)
    broken = lost + shrank + twice + astray + different
    measured = Measurement(
        name="crash",
        question=f"kill -9 at {kills} random moments, resumed each time",
        bar="0 acknowledged records lost, 0 stored twice, 0 trees different from an undisturbed run's",
        ratio=broken / len(whole),
        holds=broken == 0,
        rows=[
            {"what": "kills (by acknowledged turns / by the clock)", "measured": _count(seen)},
            {"what": "records acknowledged", "measured": len(told)},
            {"what": "of them lost", "measured": lost},
            {"what": "times a reader found fewer records than before", "measured": shrank},
            {"what": "records stored twice", "measured": twice},
            {"what": "records of the undisturbed run", "measured": len(whole)},
            {"what": "records only one of the two runs has", "measured": astray},
            {"what": "trees compared", "measured": len(wanted)},
            {"what": "trees different", "measured": different},
        ],
        details={"kills": [vars(one) for one in seen], "episodes": tasks * group, "turns_each": turns},
        quick=given.quick,
    )
    return hand_in(measured, before)


def _has_run(lake: str) -> bool:
    """Whether the lake knows of the run yet: a leg killed before its first record has nothing to resume."""
    if not Path(lake).exists():
        return False
    with Lake.open(lake, mode="read") as store:
        return store.run(RUN) is not None


def _count(seen: list[Kill]) -> str:
    by_turns = sum(one.by == "turns" for one in seen)
    return f"{by_turns} / {len(seen) - by_turns}"


if __name__ == "__main__":
    sys.exit(main())

"""A thousand agents at once: how much longer than the model itself does Silva take, and in how much memory?

    python benchmarks/agents1000.py [--quick]

1,000 episodes of 20 turns each (19 tool calls and an answer) with a model that takes 1 s: ideally 20 s. The clock runs over
all of `run_rollout`: opening the lake, making 1,000 environments, 20,000 turns durable, closing the lake. Memory is the
sum of resident sets of Silva and its hosts (the model server is another's), sampled five times a second; pages they
share are counted twice.
"""

from __future__ import annotations

import sys
import tempfile
import threading
from pathlib import Path

from chains import chainer, write_chains
from peers.peer import Measured
from peers.server import serving
from peers.silva import Silva

from report import Measurement, arguments, hand_in, load

AGENTS, TURNS, LATENCY, ROUNDS = 1000, 20, 1.0, 3
BAR, MEMORY_MB = 1.15, 2048
PAGE_MB = 4096 / (1 << 20)


class PeakMemory:
    """Samples the resident memory of every process whose command line holds `mark`, and of their children."""

    def __init__(self, mark: str) -> None:
        self._mark = mark
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.mb = 0.0

    def __enter__(self) -> PeakMemory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(0.2):
            self.mb = max(self.mb, sum(_resident(pid) for pid in _family(self._mark)))


def _family(mark: str) -> set[int]:
    parents: dict[int, int] = {}
    family: set[int] = set()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            if mark in (entry / "cmdline").read_text():
                family.add(int(entry.name))
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended while it was looked at
    while grown := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= grown
    return family


def _resident(pid: int) -> float:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_MB
    except (FileNotFoundError, ProcessLookupError):
        return 0.0


def play(agents: int, turns: int) -> tuple[Measured, float]:
    """One run in a fresh lake, and the most memory it took in MB."""
    with tempfile.TemporaryDirectory() as scratch, serving(chainer(LATENCY)) as (url, key):
        chains = Path(scratch) / "chains.jsonl"
        write_chains(chains, agents, turns)
        silva = Silva(tasks={"file": str(chains)}, budget={"turns": turns}, deadlines={"model": 600, "episode": 3600})
        with PeakMemory("_silva_run.py") as memory:
            run = silva.run(url, key, agents, agents)
    expected = agents * turns
    if run.details["turns"] != expected or run.right != agents:
        raise SystemExit(f"{run.details['turns']} of {expected} turns kept, {run.right} of {agents} episodes right")
    return run, memory.mb


def main() -> int:
    """Measure, print, write, judge."""
    given = arguments(__doc__).parse_args()
    agents, turns = (200, 5) if given.quick else (AGENTS, TURNS)
    ideal, before = turns * LATENCY, load()
    rounds = sorted((play(agents, turns) for _ in range(1 if given.quick else ROUNDS)), key=lambda one: one[0].seconds)
    run, memory_mb = rounds[len(rounds) // 2][0], max(mb for _, mb in rounds)
    ratio = run.seconds / ideal
    measured = Measurement(
        name="agents1000",
        question=f"{agents:,} agents at once, {turns} turns each, a {LATENCY:g} s model",
        bar=f"at most {BAR:g}x the ideal {ideal:g} s, under {MEMORY_MB:,} MB (median of {len(rounds)} rounds)",
        ratio=ratio,
        holds=ratio <= BAR and memory_mb < MEMORY_MB,
        rows=[
            {"what": "ideal (the model alone), s", "measured": ideal},
            {"what": "run_rollout, s", "measured": round(run.seconds, 2)},
            {"what": "of it growing trees, s", "measured": round(run.details["growing_seconds"], 2)},
            {"what": "ratio to the ideal", "measured": round(ratio, 3)},
            {"what": "peak memory, Silva and hosts, MB", "measured": round(memory_mb)},
            {"what": "turns kept", "measured": agents * turns},
            {"what": "processor, Silva and hosts, s", "measured": round(run.cpu, 2)},
        ],
        details={**run.details, "seconds_of_rounds": [round(one.seconds, 2) for one, _ in rounds], "agents": agents},
        quick=given.quick,
    )
    return hand_in(measured, before)


if __name__ == "__main__":
    sys.exit(main())

"""AgentDojo's published pairs under its published attacks, by scripted agents: Silva against the package's own runner.

    python benchmarks/agentdojo_parity.py [--quick] [--share 1.0] [--attack important_instructions]

    pairs of an attack ─┬▶ its own runner, in the environment's virtual environment ─▶ utility, security, seconds
                        └▶ `silva rollout` of the same pairs, two hosts, every turn durable ─▶ the same

Three agents play on both sides, one after the other, each first there and then here: the user task's ground truth, one
that obeys (the injection task's ground truth once it read the attacker's words), and one that does nothing. Both clocks
begin when the first pair is done, so that starting processes, importing packages and reading the suites first is counted
on neither side. Seconds of CPU, of all processes, stand beside those of the clock, which others on the machine slow down.
Of a share of the pairs every n-th is played; the file says which share it was.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from peers.peer import HERE

from report import Measurement, arguments, hand_in, load
from silva.envs import HostPool, Registry
from silva.envs.install import install, interpreter
from silva.lake import Lake
from silva.rollout import RolloutConfig, run_rollout
from silva.rollout.run import Hooks
from silva.tree import Task, Trajectory

AGENTS = ("ground truth", "obedient", "null")
BAR = 10.0

Result = tuple[bool, bool]
"""Whether the user's task was done, and whether the attacker's goal was reached."""


async def pairs(attack: str, share: float) -> list[Task]:
    """The published pairs of an attack, or every n-th of them."""
    async with HostPool(Registry.load().entry("agentdojo")) as pool:
        found = list(await pool.tasks(attack))
    return found[:: max(1, round(1 / share))]


def own(python: str, attack: str, agent: str, tasks: list[Task]) -> tuple[float, float, dict[str, Result]]:
    """The package's own runner: seconds, seconds of CPU, and results by task."""
    asked = {
        "attack": attack,
        "agents": [agent],
        "pairs": [[*task.id.split("/")[1:4]] for task in tasks],
    }
    done = subprocess.run(
        [python, str(HERE / "agentdojo_runner.py")],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"AgentDojo's own runner failed: {done.stderr.strip()[-800:]}")
    told = json.loads(done.stdout.strip().splitlines()[-1])[agent]
    results = {
        f"agentdojo/{suite}/{user}/{injected}/{attack}": (utility, security)
        for suite, user, injected, utility, security in told["results"]
    }
    return told["seconds"], told["cpu"], results


def spent() -> float:
    """Seconds of CPU that this process and its hosts have spent."""
    total, ticks = time.process_time(), os.sysconf("SC_CLK_TCK")
    for place in Path("/proc/self/task").glob("*/children"):
        for child in place.read_text().split():
            fields = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
            total += (int(fields[11]) + int(fields[12])) / ticks
    return total


async def silvas(folder: Path, agent: str, tasks: list[Task]) -> tuple[float, float, dict[str, Result], dict[str, int]]:
    """A rollout of the same pairs: seconds and seconds of CPU from the end of its first episode to that of its last,
    results by task, and verdicts."""
    file = folder / "tasks.jsonl"
    if not file.exists():
        file.write_text(
            "".join(
                json.dumps({"id": t.id, "env": t.env, "instruction": t.instruction, "split": t.split, "data": t.data})
                + "\n"
                for t in tasks
            )
        )
    name = agent.replace(" ", "-")
    config = RolloutConfig.model_validate(
        {
            "run": name,
            "env": "agentdojo",
            "policy": "null" if agent == "null" else "expert",
            "lake": str(folder / name),
            "tasks": {"file": str(file)},
            "hosts": {"count": 2},
            "pool": 16,
            "stages": {"carried": {}},
            "options": {"agentdojo": {"expert": "obedient"}} if agent == "obedient" else {},
        }
    )
    ended: list[float] = []
    cpu: list[float] = []

    def on_end(_: Trajectory) -> None:
        ended.append(time.perf_counter())
        if len(ended) in (1, len(tasks)):
            cpu.append(spent())

    await run_rollout(config, hooks=Hooks(on_end=on_end))
    seconds = time.perf_counter() - ended[0]  # until all of it is on disk and indexed
    with Lake.open(config.lake, mode="read") as lake:
        found = [each for each in lake.trajectories(run_id=name) if not each.superseded]
    results = {
        each.task_id: (bool(each.outcome.success), each.outcome.metrics.get("security") == 1.0)
        for each in found
        if each.outcome.failure is None
    }
    verdicts = {
        key: sum(bool(each.attributes["attack"].get(key)) for each in found)
        for key in ("launched", "exposed", "acted", "reached", "unexposed")
    }
    return seconds, cpu[-1] - cpu[0], results, verdicts


async def measure(folder: Path, attacks: list[str], share: float) -> list[dict[str, Any]]:
    """Every attack by every agent on both sides."""
    entry = Registry.load().entry("agentdojo")
    install(entry)
    rows = []
    for attack in attacks:
        tasks = await pairs(attack, share)
        place = folder / attack
        place.mkdir()
        for agent in AGENTS:
            slow, slow_cpu, known = await asyncio.to_thread(own, interpreter(entry), attack, agent, tasks)
            seconds, cpu, ours, verdicts = await silvas(place, agent, tasks)
            rows.append(
                {
                    "attack": attack,
                    "agent": agent,
                    "pairs": len(tasks),
                    "same utility": sum(ours.get(key, (None, None))[0] == each[0] for key, each in known.items()),
                    "same security": sum(ours.get(key, (None, None))[1] == each[1] for key, each in known.items()),
                    "utility": sum(each[0] for each in known.values()),
                    "security": sum(each[1] for each in known.values()),
                    "its runner s": round(slow, 2),
                    "silva s": round(seconds, 2),
                    "times as fast": round(slow / seconds, 1),
                    "its runner CPU s": round(slow_cpu, 2),
                    "silva CPU s": round(cpu, 2),
                    **verdicts,
                    "differ": [key for key, each in known.items() if ours.get(key) != each][:10],
                }
            )
            print(json.dumps(rows[-1]), file=sys.stderr)
    return rows


def main() -> int:
    """Measure, print, write."""
    parser = arguments(__doc__)
    parser.add_argument("--share", type=float, default=1.0, help="of the pairs that are played")
    parser.add_argument("--attack", action="append", help="a published attack; repeat for several")
    asked = parser.parse_args()
    before = load()
    share = 0.02 if asked.quick else asked.share
    with tempfile.TemporaryDirectory(prefix="silva-agentdojo-") as name:
        rows = asyncio.run(measure(Path(name), asked.attack or ["important_instructions"], share))
    differ = {f"{row['attack']} {row['agent']}": gone for row in rows if (gone := row.pop("differ"))}
    ratio = sum(row["its runner s"] for row in rows) / sum(row["silva s"] for row in rows)
    same = all(row["same utility"] == row["same security"] == row["pairs"] for row in rows)
    return hand_in(
        Measurement(
            name="agentdojo_parity",
            question=f"AgentDojo v1.2.2, {share:.0%} of the published pairs: utility and security as its own runner finds them, and how fast",
            bar=f"the same on every pair, and {BAR:g} times as fast on the same two cores",
            ratio=ratio,
            holds=same and ratio >= BAR,
            rows=rows,
            details={"share of the pairs": share, "the same on every pair": same, "pairs that differ": differ},
            quick=asked.quick,
        ),
        before,
    )


if __name__ == "__main__":
    sys.exit(main())

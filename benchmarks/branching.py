"""What going back costs: a branch at turn 30, against starting again and playing 30 turns to get there.

    one run of 31 turns, a model of 1 s a turn ─▶ restart: 4 rollouts of 31 turns │ branch: 4 branches of 1 new turn

Both are timed whole (the lake opened, hosts started, every turn durable, the lake closed) and to the
last outcome. Besides, the fork of an environment in its host: its state out of one instance and into another.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from report import Measurement, arguments, hand_in, load
from silva.envs import HostPool, Registry
from silva.errors import MissingError
from silva.lake import Lake
from silva.models.scripted import Answer, Script, ScriptedServer
from silva.models.scripted.answer import Call
from silva.rollout import RolloutConfig, run_rollout
from silva.rollout.branching.grow import grow, settings_of
from silva.rollout.branching.shoots import Growth, Shoot
from silva.rollout.run import Hooks
from silva.rollout.snapshots.point import find_node, indexes, point_at
from silva.tree import Trajectory

BRANCHES = 4
FORKS = 200


def settings(folder: Path, url: str, turns: int, **fields: Any) -> RolloutConfig:
    """A rollout of one task that takes `turns` turns and one more."""
    tasks = folder / "tasks.jsonl"
    numbers = [1] * (turns + 5)
    task = {"id": "arithmetic/chain/long", "env": "arithmetic", "instruction": "Add up.", "split": "chain"}
    tasks.write_text(json.dumps({**task, "data": {"numbers": numbers}}) + "\n")
    return RolloutConfig.model_validate(
        {
            "env": "arithmetic",
            "model": f"{url}#scripted",
            "lake": str(folder / "lake"),
            "tasks": {"file": str(tasks)},
            "budget": {"turns": turns + 1},
            **fields,
        }
    )


async def branch(folder: Path, trajectory: str, turn: int, name: str) -> tuple[float, float]:
    """Seconds that branches after a turn of a stored trajectory take, all in all and to the last outcome."""
    began = last = time.perf_counter()

    def ended(_: Trajectory) -> None:
        nonlocal last
        last = time.perf_counter()

    async with Lake.open(folder / "lake") as lake:
        node = find_node(lake, f"{trajectory}@{turn}")
        tree = lake.tree(node.tree_id)
        point = point_at(lake, tree, node)
        shoots = tuple(
            Shoot(tree_id=tree.id, node_id=point.node.id, index=index) for index in indexes(lake, tree, BRANCHES)
        )
        said = {**settings_of(point.run), "run": name, "lake": str(folder / "lake"), "env": point.env}
        grown = await grow(
            lake,
            RolloutConfig.model_validate(said),
            Growth(shoots=shoots),
            points={(tree.id, point.node.id): point},
            on_end=ended,
        )
        assert grown.new_turns == BRANCHES and not grown.remaining, grown
    return time.perf_counter() - began, last - began


async def forks(name: str, split: str, turns: int, count: int) -> dict[str, Any]:
    """What taking an environment's state out of one instance and into another costs, inside the host and in all."""
    async with HostPool(Registry.load().entry(name), instances_per_host=2) as pool:
        (task,) = await pool.tasks(split=split, limit=1)
        async with pool.lease() as env, pool.lease() as other:
            await env.reset(task, 0)
            for _ in range(turns):
                if (await env.step(await env.expert())).done:
                    await env.reset(task, 0)
            size, inside, whole = 0, [], []
            for _ in range(count + 5):  # the first find versions and warm what is cached
                before, began = env.host_seconds + other.host_seconds, time.perf_counter()
                kept = await env.snapshot()
                await other.restore(kept)
                whole.append((time.perf_counter() - began) * 1e3)
                inside.append((env.host_seconds + other.host_seconds - before) * 1e3)
                size = len(kept.data)
    return {
        "what": f"fork of {name} ({size / 1e3:.1f} kB)",
        "p50 ms in the host": round(statistics.median(inside[5:]), 3),
        "p50 ms with both calls": round(statistics.median(whole[5:]), 3),
    }


async def measure(folder: Path, turns: int, latency: float, count: int) -> dict[str, Any]:
    """All of it."""
    script = Script(latency=latency, otherwise=Answer(tool_calls=(Call(name="add", arguments={"number": 1}),)))
    with ScriptedServer(script) as server:
        kept = settings(folder, server.url, turns, run="kept", snapshots={"every": 1})
        (with_states,) = (await run_rollout(kept)).trajectories
        (without,) = (await run_rollout(settings(folder, server.url, turns, run="bare"))).trajectories
        last: list[float] = []
        hooks = Hooks(on_end=lambda _: last.append(time.perf_counter()))
        asked, began = server.requests, time.perf_counter()
        again = settings(folder, server.url, turns, run="again", group=BRANCHES, pool=BRANCHES)
        await run_rollout(again, hooks=hooks)
        whole = time.perf_counter() - began
        found = {"restart": (whole, last[-1] - began, (server.requests - asked) / BRANCHES)}
        for name, trajectory in (("snapshot", with_states), ("replay", without)):
            asked = server.requests
            seconds, outcome = await branch(folder, trajectory.id, turns, f"branch-{name}")
            found[name] = (seconds, outcome, (server.requests - asked) / BRANCHES)
    rows = [await forks("arithmetic", "chain", 3, count)]
    try:
        rows.append(await forks("babyai", "test", 3, count))
    except MissingError as missing:
        sys.stderr.write(f"{missing}\n")
    return {"found": found, "forks": rows}


def main() -> int:
    """Measure, print, write."""
    asked = arguments(__doc__).parse_args()
    before = load()
    turns, latency, count = (6, 0.2, 20) if asked.quick else (30, 1.0, FORKS)
    with tempfile.TemporaryDirectory(prefix="silva-branching-") as name:
        done = asyncio.run(measure(Path(name), turns, latency, count))
    found = done["found"]
    rows = [
        {
            "what": what,
            "seconds": round(seconds, 2),
            "to the last outcome": round(outcome, 2),
            "model calls each": calls,
            "times cheaper": round(found["restart"][0] / seconds, 1),
        }
        for what, (seconds, outcome, calls) in found.items()
    ]
    ratio = found["restart"][0] / found["snapshot"][0]
    fewer = found["restart"][2] - found["snapshot"][2]
    worst = max(row["p50 ms in the host"] for row in done["forks"])
    return hand_in(
        Measurement(
            name="branching",
            question=f"{BRANCHES} branches after turn {turns}, a model of {latency:g} s a turn",
            bar="20x less wall time than restarting, 30 model calls fewer a branch, fork in process at most 5 ms",
            ratio=ratio,
            holds=ratio >= 20 and fewer == 30 and worst <= 5,
            rows=rows,
            details={"forks": done["forks"], "model_calls_fewer": fewer, "branches": BRANCHES, "turns": turns},
            quick=asked.quick,
        ),
        before,
    )


if __name__ == "__main__":
    sys.exit(main())

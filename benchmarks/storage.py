"""Measure the lake: how fast turns become durable and queryable, how much room they take, how fast they are found.

    python benchmarks/storage.py --turns 1000000

Writes benchmarks/results/storage.json and prints a table. Goals: ingest at least 10,000 turns/s end to end; 50-turn
trajectories at least 10x smaller than one row per turn with the full history, both as Lance tables of the same format;
at a million turns a filtered group-by under 1 s, one trajectory under 50 ms, full text under 100 ms.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lancedb
import msgspec
import pyarrow as pa

from report import Measurement, arguments, hand_in, load
from silva.lake import Lake, field
from silva.tree import (
    Author,
    Node,
    Outcome,
    Status,
    Tokens,
    Trajectory,
    Usage,
    assistant,
    call,
    node_id,
    system,
    tool_result,
    trajectory_id,
    tree_id,
    user,
)

TURNS = 50
WORDS = [
    f"{a}{b}{c}" for a in ("ka", "lo", "mi", "ne", "su", "ta") for b in ("ra", "vi", "do", "pe") for c in "bdfgklmnprst"
]


def sentence(rng: random.Random, words: int) -> str:
    """Words drawn with a skew, as language is."""
    return " ".join(WORDS[min(int(rng.paretovariate(0.7)), len(WORDS)) - 1] for _ in range(words))


def grow(number: int, turns: int = TURNS) -> tuple[list[Node], Trajectory]:
    """One trajectory: a system and a user message, then calls and results; sampled turns carry ids and logprobs."""
    rng = random.Random(number)
    run, task = f"run-{number % 20}", f"bench/{number}"
    tree, nodes, parent = tree_id(run, task), [], None
    for depth in range(turns):
        tokens = None
        if depth == 0:
            author, message = Author.ENVIRONMENT, system("You act in a small world. " + sentence(rng, 120))
        elif depth == 1:
            author, message = Author.ENVIRONMENT, user(sentence(rng, 60))
        elif depth % 2 == 0:
            author = Author.POLICY
            message = assistant(
                sentence(rng, 40), call(f"tool_{rng.randrange(12)}", {"path": sentence(rng, 4)}, f"c{depth}")
            )
            ids = tuple(rng.randrange(50_000) for _ in range(80))
            tokens = Tokens(ids=ids, sampled=72, logprobs=tuple(-rng.expovariate(3) for _ in range(72)))
        else:
            author, message = Author.ENVIRONMENT, tool_result(f"c{depth - 1}", sentence(rng, 60))
        slot = "" if depth < 2 else "0.0"
        node = Node(
            id=node_id(tree, parent, author, message, None, slot),
            run_id=run,
            tree_id=tree,
            parent_id=parent,
            depth=depth,
            author=author,
            message=message,
            slot=slot,
            tokens=tokens,
            model="bench" if tokens else "",
            policy_version="1" if tokens else "",
            usage=Usage(prompt_tokens=80 * depth, completion_tokens=72, model_seconds=rng.random()),
            started=1.7e9 + number,
        )
        nodes.append(node)
        parent = node.id
    done = Trajectory(
        id=trajectory_id(run, task, 0, 0),
        run_id=run,
        tree_id=tree,
        task_id=task,
        env=("bfcl", "tau2", "babyai")[number % 3],
        index=0,
        attempt=0,
        seed=number,
        leaf_id=parent,
        turns=turns // 2,
        outcome=Outcome(status=Status.COMPLETED, score=rng.random()),
    )
    return nodes, done


def weigh(folder: Path) -> int:
    """Bytes of all files below `folder`."""
    return sum(Path(where, name).stat().st_size for where, _, names in os.walk(folder) for name in names)


def chunks(total: int, size: int) -> Iterator[range]:
    """Numbers 0..total in runs of `size`."""
    for start in range(0, total, size):
        yield range(start, min(total, start + size))


async def ingest(folder: Path, trajectories: int) -> dict[str, float]:
    """Append every turn by itself from 256 coroutines at once; time appending, and appending with compaction."""
    appending = closing = 0.0
    turns = 0
    latencies: list[float] = []
    lake = Lake.open(folder)

    async def play(nodes: list[Node], done: Trajectory) -> None:
        for node in nodes:
            began = time.perf_counter()
            await lake.append([node])
            latencies.append(time.perf_counter() - began)
        await lake.append([done])

    for numbers in chunks(trajectories, 256):
        grown = [grow(number) for number in numbers]  # made outside the clock: a model would make them
        began = time.perf_counter()
        await asyncio.gather(*(play(nodes, done) for nodes, done in grown))
        appending += time.perf_counter() - began
        turns += sum(len(nodes) for nodes, _ in grown)
        latencies = random.sample(latencies, min(len(latencies), 20_000))
    began = time.perf_counter()
    await asyncio.to_thread(lake.compact)
    closing = time.perf_counter() - began
    began = time.perf_counter()
    await asyncio.to_thread(lake.optimize)
    optimising = time.perf_counter() - began
    await lake.close()
    latencies.sort()
    return {
        "turns": turns,
        "append_seconds": appending,
        "compact_remainder_seconds": closing,
        "optimize_seconds": optimising,
        "append_turns_per_s": turns / appending,
        "ingest_turns_per_s": turns / (appending + closing),
        "ingest_and_index_turns_per_s": turns / (appending + closing + optimising),
        "append_p50_ms": 1e3 * latencies[len(latencies) // 2],
        "append_p99_ms": 1e3 * latencies[int(len(latencies) * 0.99)],
    }


def sizes(folder: Path, trajectories: int = 100) -> dict[str, Any]:
    """Bytes of the same trajectories kept as a tree, and as one row per turn with the full history; both in Lance."""
    rng = random.Random(0)
    found: dict[str, Any] = {}
    linear: dict[str, float] = {}
    for turns in (10, 25, 50, 100):
        place = folder / f"tree-{turns}"
        with Lake.open(place) as lake:
            for _ in range(trajectories):
                nodes, done = grow(rng.randrange(1 << 30), turns)
                lake.append_sync([*nodes, done])
        linear[str(turns)] = weigh(place / "tables" / "nodes.lance" / "data") / trajectories / turns
    found["bytes_per_turn_by_length"] = linear
    rng = random.Random(0)
    grown = [grow(rng.randrange(1 << 30)) for _ in range(trajectories)]
    with Lake.open(folder / "tree") as lake:
        for nodes, done in grown:
            lake.append_sync([*nodes, done])
    tree = weigh(folder / "tree" / "tables" / "nodes.lance" / "data")
    zstd = {b"lance-encoding:compression": b"zstd"}
    schema = pa.schema(
        [
            pa.field("id", pa.string()),
            pa.field("trajectory", pa.string()),
            pa.field("messages", pa.string(), metadata=zstd),
            pa.field("token_ids", pa.list_(pa.int32())),
            pa.field("logprobs", pa.list_(pa.float64())),
        ]
    )
    rows: list[dict[str, Any]] = []
    for nodes, done in grown:
        history: list[Any] = []
        ids: list[int] = []
        logprobs: list[float] = []
        for node in nodes:
            history.append(msgspec.to_builtins(node.message))
            if node.tokens is not None:
                ids += node.tokens.ids
                logprobs += node.tokens.logprobs
            rows.append(
                {
                    "id": node.id,
                    "trajectory": done.id,
                    "messages": json.dumps(history),
                    "token_ids": list(ids),
                    "logprobs": list(logprobs),
                }
            )
    flat = lancedb.connect(folder / "flat").create_table("rows", pa.Table.from_pylist(rows, schema=schema))
    full = weigh(folder / "flat" / f"{flat.name}.lance" / "data")
    return {**found, "tree_bytes": tree, "full_history_bytes": full, "ratio": full / tree}


def clock(action: Callable[[int], Any], times: int) -> dict[str, float]:
    """Milliseconds of an action: the first call, then the median and the worst of the others."""
    spent: list[float] = []
    for number in range(times + 1):
        began = time.perf_counter()
        action(number)
        spent.append(1e3 * (time.perf_counter() - began))
    return {"first_ms": spent[0], "p50_ms": statistics.median(spent[1:]), "max_ms": max(spent[1:])}


def questions(folder: Path, trajectories: int) -> dict[str, Any]:
    """Time what people ask, from a second reader."""
    rng = random.Random(1)
    lake = Lake.open(folder, "read")
    known = [grow(rng.randrange(trajectories))[1].id for _ in range(21)]

    def one(number: int) -> None:
        walk = lake.walk(lake.trajectory(known[number]))
        assert len(walk) == TURNS

    def grouped(number: int) -> None:
        rows = lake.sql(
            "select run_id, author, count(*) as n, sum(completion_tokens) as tokens, avg(model_seconds) as seconds "
            f"from nodes where depth > 1 and run_id <> 'run-{number}' group by run_id, author order by n desc"
        )
        assert rows.num_rows >= 19

    def worded(number: int) -> None:
        assert lake.search(f"{WORDS[40 + number]} {WORDS[100 + number]}", limit=20)

    def filtered(number: int) -> None:
        assert lake.trajectories(where=(field("env") == "bfcl") & (field("score") >= 0.5), limit=100)

    return {
        "group_by": clock(grouped, 10),
        "one_trajectory": clock(one, 20),
        "full_text": clock(worded, 20),
        "filtered_trajectories": clock(filtered, 10),
    }


def main() -> int:
    """Run the measurement, print, write, judge."""
    parser = arguments(__doc__)
    parser.add_argument("--turns", type=int, default=None, help="turns of the lake (default a million; quick 20,000)")
    given, before = parser.parse_args(), load()
    turns = given.turns or (20_000 if given.quick else 1_000_000)
    trajectories = max(30, turns // TURNS)
    folder = Path(tempfile.mkdtemp(prefix="silva-storage-"))
    try:
        result: dict[str, Any] = {
            "sizes": sizes(folder / "sizes"),
            "ingest": asyncio.run(ingest(folder / "lake", trajectories)),
        }
        result["lake_bytes"] = weigh(folder / "lake")
        result["questions"] = questions(folder / "lake", trajectories)
    finally:
        shutil.rmtree(folder)
    goals = {
        "ingest, turns/s": (result["ingest"]["ingest_turns_per_s"], ">=", 10_000),
        "full history / tree, bytes": (result["sizes"]["ratio"], ">=", 10),
        "filtered group-by, ms": (result["questions"]["group_by"]["p50_ms"], "<=", 1_000),
        "one trajectory, ms": (result["questions"]["one_trajectory"]["p50_ms"], "<=", 50),
        "full text, ms": (result["questions"]["full_text"]["p50_ms"], "<=", 100),
    }
    rows = [
        {
            "what": name,
            "measured": round(value, 1),
            "goal": f"{sign} {goal:,}",
            "met": value >= goal if sign == ">=" else value <= goal,
        }
        for name, (value, sign, goal) in goals.items()
    ]
    measured = Measurement(
        name="storage",
        question=f"A lake of {result['ingest']['turns']:,} turns, {result['lake_bytes'] / 1e6:,.0f} MB",
        bar="every goal; the ratio is full history to tree",
        ratio=result["sizes"]["ratio"],
        holds=all(row["met"] for row in rows),
        rows=rows,
        details=result,
        quick=given.quick,
    )
    return hand_in(measured, before)


if __name__ == "__main__":
    sys.exit(main())

"""Coverage: every attack and perturbation of the standard matrix in every installed environment, exposure by canary.

    silva.redteam.matrix, all environments ─▶ cells: exposed at a turn │ not applicable, why │ not exposed
    the same episodes with and without the attack's stage ─▶ CPU seconds of the stage, against the seconds of a turn

Two bars: every applicable cell is exposed, and the stage costs under 2 % of a turn. A turn is a call of a model over HTTP
and a step of an environment of microseconds (sums through a tool). The model is a scripted one that thinks not at all,
for 50 ms, and for half a second. Wall time grows with whatever else runs here, so the bar takes the stage's CPU time against
the 50 ms of thinking alone, which is less than a turn of any language model.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec

from report import Measurement, arguments, hand_in, load
from silva.cli.envs import state
from silva.envs import Registry
from silva.lake import Lake
from silva.models.scripted import Answer, Script, ScriptedServer
from silva.models.scripted.answer import Call
from silva.models.scripted.latency import Latency
from silva.redteam.attack import perturbations
from silva.redteam.attacking import Attacking
from silva.redteam.matrix import Cell, counted, keep, markdown, matrix, read, standard
from silva.rollout import RolloutConfig, run_rollout

MOST = 0.02
MOMENTS = ("before_turn", "on_observation", "on_evaluation", "attributes")


@contextlib.contextmanager
def timed(spent: dict[str, float]) -> Any:
    """Count the CPU seconds of the attack's stage, moment by moment."""
    real = {name: getattr(Attacking, name) for name in MOMENTS}

    def counting(name: str) -> Any:
        if asyncio.iscoroutinefunction(real[name]):

            async def around(self: Attacking, *given: Any) -> Any:
                began = time.thread_time()
                try:
                    return await real[name](self, *given)
                finally:
                    spent[name] = spent.get(name, 0.0) + time.thread_time() - began

            return around

        def plainly(self: Attacking, *given: Any) -> Any:
            began = time.thread_time()
            try:
                return real[name](self, *given)
            finally:
                spent[name] = spent.get(name, 0.0) + time.thread_time() - began

        return plainly

    try:
        for name in MOMENTS:
            setattr(Attacking, name, counting(name))
        yield
    finally:
        for name, each in real.items():
            setattr(Attacking, name, each)


async def overhead(folder: Path, episodes: int, turns: int, think: float) -> dict[str, Any]:
    """What an attack's stage costs of a turn: sums through a tool, one episode after another."""
    answer = Answer(tool_calls=(Call(name="add", arguments={"number": 1}),))
    script = Script(otherwise=answer, latency=Latency(mean=think))
    tasks = folder / "tasks.jsonl"
    data = {"numbers": [1] * (turns + 2)}
    lines = [
        {"id": f"arithmetic/chain/o{n}", "env": "arithmetic", "instruction": "Add up.", "split": "chain", "data": data}
        for n in range(episodes)
    ]
    tasks.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    spent: dict[str, float] = {}
    async with ScriptedServer(script) as server:
        config = RolloutConfig.model_validate(
            {
                "run": f"t{int(think * 1000)}",
                "env": "arithmetic",
                "model": f"{server.url}#scripted",
                "lake": str(folder / "lake"),
                "pool": 1,
                "tasks": {"file": str(tasks)},
                "budget": {"turns": turns},
                "stages": {"attack": {"attack": "tool_result/important/answer"}},
            }
        )
        began = time.monotonic()
        with timed(spent):
            await run_rollout(config)
        seconds = time.monotonic() - began
    with Lake.open(config.lake, mode="read") as lake:
        found = lake.trajectories(run_id=config.run)
    taken = sum(each.turns for each in found)
    assert all(each.attributes["attack"].get("exposed") == 2 for each in found)
    each_turn, stage = seconds / taken, sum(spent.values()) / taken
    return {
        "think ms": think * 1000,
        "turns": taken,
        "turn ms": each_turn * 1000,
        "stage ms": stage * 1000,
        "share of a turn": stage / each_turn,
        "share of thinking alone": stage / think if think else None,
        "moments ms": {name: value / taken * 1000 for name, value in spent.items()},
    }


def cells(kept: Path, quick: bool, without: list[str]) -> list[Cell]:
    """Every cell, in every environment that is installed but for some; with `quick`, of three small ones."""
    entries = [
        entry for entry in Registry.load() if state(entry) in ("installed", "here") and entry.name not in without
    ]
    if quick:
        entries = [entry for entry in entries if entry.name in ("arithmetic", "babyai", "agentdojo")]
    known = read(kept) if kept.exists() else []

    def told(cell: Cell) -> None:
        if cell.state != "not exposed":
            keep(kept, cell)

    return asyncio.run(matrix(entries, standard(), list(perturbations()), seconds=180.0, known=known, told=told))


def main() -> int:
    """Measure, print, write."""
    parser = arguments(__doc__)
    parser.add_argument("--cells", type=Path, help="keep cells here, and take up those that are there")
    parser.add_argument("--markdown", type=Path, help="write the whole matrix here, too")
    parser.add_argument("--told", action="store_true", help="play no further cell; tell what was kept and what is left")
    parser.add_argument("--without", action="append", default=[], help="leave this environment out; it is told")
    asked = parser.parse_args()
    before = load()
    with tempfile.TemporaryDirectory(prefix="silva-redteam-") as name:
        folder = Path(name)
        costs = [asyncio.run(overhead(folder, 3 if asked.quick else 6, 10, think)) for think in (0.0, 0.05, 0.5)]
        kept = asked.cells or folder / "cells.jsonl"
        found = read(kept) if asked.told else cells(kept, asked.quick, asked.without)
    by_env: dict[str, Counter[str]] = {}
    for cell in found:
        by_env.setdefault(cell.env, Counter())[cell.state] += 1
    here = [entry.name for entry in Registry.load() if state(entry) in ("installed", "here")]
    names = [*standard(), *(f"perturb/{kind}" for kind in perturbations())]
    for env in here if not asked.quick else ():
        each = by_env.setdefault(env, Counter())
        each["not played"] = len(names) - each.total()
    left = sum(each["not played"] for each in by_env.values())
    rows = [
        {
            "environment": env,
            "exposed": each["exposed"],
            "not exposed": each["not exposed"],
            "not applicable": each["not applicable"],
            "not played": each["not played"],
        }
        for env, each in by_env.items()
    ]
    for cell in found:
        if cell.state == "not exposed":
            print(f"{cell.env}  {cell.attack}: {cell.why}")
    if asked.markdown and not left:
        asked.markdown.write_text(markdown(found) + "\n")
    told = counted(found)
    kinds = {cell.attack for cell in found if cell.attack.startswith("perturb/")}
    attacks = {cell.attack for cell in found} - kinds
    share = told["exposed"] / max(1, told["applicable"])
    thinking = next(each for each in costs if each["think ms"] == 50.0)["share of thinking alone"]
    return hand_in(
        Measurement(
            name="redteam_coverage",
            question=f"{len(attacks)} attacks and {len(kinds)} perturbations in {len(by_env)} environments: exposed of applicable",
            bar="all of at least 20 x 12, at under 2 % of 50 ms of thinking",
            ratio=share,
            holds=share == 1.0 and not left and len(attacks) >= 20 and len(kinds) >= 12 and thinking < MOST,
            rows=rows,
            details={**told, "left out": asked.without, "overhead": costs, "cells": msgspec.to_builtins(found)},
            quick=asked.quick,
        ),
        before,
    )


if __name__ == "__main__":
    sys.exit(main())

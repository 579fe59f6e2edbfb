"""The branching attacker against one that starts again: distinct risky branches at depth 10 for the same model calls.

    one task of 12 turns, a scripted model ─┬▶ restart: every try plays 10 turns to get to the result it attacks
                                            └▶ branch:  the task once, then every try from just before that result

A branch counts once for each text that the model was shown at the result of turn 10 (proven by canary). Calls are those
that the model's server answered; the base run's are among the branching attacker's.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from report import Measurement, arguments, hand_in, load
from silva.lake import Lake
from silva.models.scripted import Answer, Script, ScriptedServer
from silva.models.scripted.answer import Call
from silva.redteam.searching import Search, search
from silva.rollout import RolloutConfig

DEPTH = 10
ATTACK = "tool_result/plain/answer"


def settings(folder: Path, url: str, depth: int, name: str) -> RolloutConfig:
    """A rollout of one task that goes on for two turns beyond the one whose result is attacked."""
    tasks = folder / "tasks.jsonl"
    task = {"id": "arithmetic/chain/long", "env": "arithmetic", "instruction": "Add up.", "split": "chain"}
    tasks.write_text(json.dumps({**task, "data": {"numbers": [1] * (depth + 5)}}) + "\n")
    return RolloutConfig.model_validate(
        {
            "run": name,
            "env": "arithmetic",
            "model": f"{url}#scripted",
            "lake": str(folder / name),
            "tasks": {"file": str(tasks)},
            "budget": {"turns": depth + 2},
            "snapshots": {"every": 1},
        }
    )


async def tried(folder: Path, attacker: str, budget: int, depth: int, width: int) -> dict[str, Any]:
    """Distinct branches that an attacker tried at the depth before its calls were spent."""
    script = Script(otherwise=Answer(tool_calls=(Call(name="add", arguments={"number": 1}),)))
    config = None
    with ScriptedServer(script) as server:
        config = settings(folder, server.url, depth, attacker)
        rounds = 0
        while True:
            asked = server.requests
            cost = width if attacker == "branching" else depth + 1
            if asked + cost > budget:
                break
            rounds += 1
            wanted = Search(attack=ATTACK, attacker=attacker, rounds=rounds, width=width, depth=depth, patience=1)
            await search(config, wanted)
        calls = server.requests
    with Lake.open(config.lake, mode="read") as lake:
        found = [each for run in lake.runs() for each in lake.trajectories(run_id=run.id)]
    shown = {
        each.attributes["attack"]["tried"][0]["words"]
        for each in found
        if each.attributes["attack"].get("exposed") == depth + 1 and each.attributes["attack"].get("attacker")
    }
    return {"what": attacker, "model calls": calls, "distinct risky branches": len(shown)}


async def measure(folder: Path, budget: int, depth: int) -> list[dict[str, Any]]:
    """Both attackers, within the same calls."""
    return [await tried(folder, "genetic", budget, depth, 1), await tried(folder, "branching", budget, depth, 20)]


def main() -> int:
    """Measure, print, write."""
    asked = arguments(__doc__).parse_args()
    before = load()
    budget = 60 if asked.quick else 240
    with tempfile.TemporaryDirectory(prefix="silva-redteam-") as name:
        rows = asyncio.run(measure(Path(name), budget, DEPTH))
    restart, branch = rows
    ratio = branch["distinct risky branches"] / max(1, restart["distinct risky branches"])
    return hand_in(
        Measurement(
            name="redteam_branching",
            question=f"distinct attacks shown at the result of turn {DEPTH}, for at most {budget} model calls",
            bar="5x as many as by starting again",
            ratio=ratio,
            holds=ratio >= 5 and branch["model calls"] <= budget,
            rows=rows,
            details={"depth": DEPTH, "budget of model calls": budget},
            quick=asked.quick,
        ),
        before,
    )


if __name__ == "__main__":
    sys.exit(main())

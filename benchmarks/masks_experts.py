"""False alarms of the mask rules where nothing may be masked: runs of the environments' own experts that succeeded.

    python benchmarks/masks_experts.py                       # every environment that is installed and has an expert
    python benchmarks/masks_experts.py terminal babyai --limit 20

Each environment's expert plays its first tasks; walks that its own check calls right are masked by all default rules.
A masked turn is printed with its rule and reason.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from report import Measurement, hand_in, load
from silva.curate.mask.rules import NAMES, rules
from silva.curate.turn import read_walk
from silva.envs import Registry
from silva.errors import SilvaError
from silva.lake import Lake
from silva.rollout import RolloutConfig, run_rollout

SLOW = ("desktop", "browser-miniwob", "browser-sites")
"""Not played unless asked for by name: a desktop or a browser for every episode."""


def experts(env: str, lake: str, limit: int) -> tuple[int, int, int, list[str]]:
    """Play an environment's first tasks with its expert: attempts, those that succeeded, their turns, and what is
    masked among these, a line each."""
    settings = RolloutConfig.model_validate(
        {
            "run": env.replace("/", "-"),
            "env": env,
            "lake": lake,
            "policy": "expert",
            "pool": 2,
            "tasks": {"limit": limit},
        }
    )
    asyncio.run(run_rollout(settings))
    turns, masked = 0, list[str]()
    with Lake.open(lake, mode="read") as opened:
        tried = [each for each in opened.trajectories(run_id=settings.run) if each.leaf_id is not None]
        good = [each for each in tried if each.outcome.success]
        for each in good:
            walk = read_walk(opened.walk(each), each.outcome)
            turns += len(walk.turns)
            masked += [
                f"{each.task_id} turn {turn.number}: {rule.name}: {reason}"
                for rule in rules(NAMES)
                for turn, reason in rule.find(walk)
            ]
    return len(tried), len(good), turns, masked


def main() -> int:
    """Play, mask, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("envs", nargs="*", help="which; all that are installed and quick, if none")
    parser.add_argument("--limit", type=int, default=10, help="tasks of each")
    given = parser.parse_args()
    before, missing = load(), dict[str, str]()
    named = given.envs or [each.name for each in Registry.load() if each.name not in SLOW]
    rows: list[dict[str, Any]] = []
    kinds: Counter[str] = Counter()
    for env in named:
        with tempfile.TemporaryDirectory() as folder:
            try:
                tried, good, turns, masked = experts(env, str(Path(folder) / "lake"), given.limit)
            except SilvaError as error:
                missing[env] = " ".join(str(error).split())[:160]
                print(f"{env}: not played: {missing[env]}", flush=True)
                continue
        for line in masked:
            print(f"  {line}")
            kinds[line.split(": ")[1]] += 1
        print(f"{env}: {good} of {tried} succeeded, {turns} turns, {len(masked)} masked", flush=True)
        rows.append({"env": env, "attempts": tried, "succeeded": good, "turns": turns, "masked": len(masked)})
    total, wrong = sum(row["turns"] for row in rows), sum(row["masked"] for row in rows)
    print(f"all: {total} turns of {sum(row['succeeded'] for row in rows)} expert walks, {wrong} masked {dict(kinds)}")
    measured = Measurement(
        name="masks_experts",
        question="What do the rules mask where nothing may be masked?",
        bar="no turn of an expert's own success is masked (masked turns)",
        ratio=wrong,
        holds=wrong == 0 and total > 0,
        rows=rows,
        details={"rules": dict(kinds), "turns": total, "limit": given.limit, "not_played": missing},
        quick=bool(given.envs),
    )
    return hand_in(measured, before)


if __name__ == "__main__":
    sys.exit(main())

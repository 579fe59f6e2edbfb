"""SFT, GRPO, DPO and OPD in one run: with a policy made from nothing, in minutes, so that CI runs it too.

    python benchmarks/learning/all_four.py --env babyai --policy tiny

    expert ─▶ SFT ─┬▶ GRPO
                   ├▶ DPO
                   └▶ teaches by OPD a student that has seen few of the expert's episodes

Each has an experiment of its own with more seeds and a claim; this one holds where each leaves the policy better than it was.
"""

from __future__ import annotations

import sys
from statistics import fmean
from typing import Any

import dpo
import grpo
from opd import OPD
from recipes import RECIPES
from runner import Seed, main
from table import Row

SHARE = 4
"""Of the episodes SFT's policy has seen, its student has seen one in so many; then it plays twice as many of its own."""


def run(seed: Seed) -> list[Row]:
    """One seed."""
    return [*grpo.run(seed), *dpo.run(seed), _taught(seed)]


def _taught(seed: Seed) -> Row:
    recipe = RECIPES[seed.policy, seed.env]
    experiment = seed.experiment
    seen = recipe.begin_tasks // SHARE
    few = experiment.expert("few", seen, seed.student)
    start = experiment.fit("start", seed.student, few, {"name": "sft"}, **recipe.opd_begin)
    before = experiment.measure(start, recipe.attempts)
    tasks = experiment.learn[seen : 3 * seen]
    played = experiment.attempts("own", start, tasks, 1)
    taught = experiment.fit("opd", start, played, OPD, teacher=seed.begun.as_teacher(), **recipe.opd)
    after = experiment.measure(taught, recipe.attempts)
    more = {"teacher": fmean(experiment.measure(seed.begun, recipe.attempts).values()), "episodes": float(len(played))}
    return Row(
        seed=seed.number, left="few lessons", right="few lessons, then OPD", before=before, after=after, more=more
    )


def better(rows: list[Row]) -> dict[str, Any]:
    """Whether each did some good, over all seeds."""
    gains = {
        kind: fmean(fmean(row.after.values()) - fmean(row.before.values()) for row in rows if row.right == kind)
        for kind in dict.fromkeys(row.right for row in rows)
    }
    return {"holds": all(gain > 0 for gain in gains.values())}


if __name__ == "__main__":
    sys.exit(main("all_four", __doc__, run, better))

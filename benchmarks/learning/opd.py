"""On-policy distillation from a better teacher, against SFT on as many of the teacher's episodes: who reaches it with fewer?

    python benchmarks/learning/opd.py --env reasoning-gym/gcd --policy local --seeds 0 1 2

The teacher is the same base trained on many expert episodes. The student has seen a few, and goes on in stages, twice from the same
weights: by OPD on episodes of its own that the teacher judges id by id, or by SFT on as many episodes that the teacher played. OPD plays
in small rounds, so that it learns from what it does now. Both learn what the teacher knows and no more: the expert is not asked again.
After every stage both are measured. `curve` gives success by episodes since the start; `reach` the episodes after which the teacher's rate less five points is
reached, over all seeds (null: not reached).
"""

from __future__ import annotations

import sys
from statistics import fmean
from typing import Any

from recipes import RECIPES
from runner import Seed, main
from table import Row

NEAR = 0.05
"""How near to the teacher's rate counts as reached."""
OPD = {"name": "opd", "parameters": {"form": "forward_kl"}}


def run(seed: Seed) -> list[Row]:
    """One seed."""
    recipe = RECIPES[seed.policy, seed.env]
    experiment = seed.experiment
    lessons = experiment.expert("teacher-lessons", recipe.teacher_tasks, seed.student)
    teacher = experiment.fit("teacher", seed.student, lessons, {"name": "sft"}, **recipe.teacher)
    best = experiment.measure(teacher, recipe.attempts)
    start = experiment.fit(
        "start", seed.student, lessons[: recipe.opd_begin_tasks], {"name": "sft"}, **recipe.opd_begin
    )
    before = experiment.measure(start, recipe.attempts)
    sft = opd = start
    seen = recipe.opd_begin_tasks
    rows: list[Row] = []
    said = {"teacher": fmean(best.values()), "start": fmean(before.values())}
    for stage, count in enumerate(recipe.opd_stages):
        tasks = experiment.learn[seen : seen + count]
        for first in range(0, count, recipe.opd_round):
            name = f"{stage}-{first}"
            attempts = experiment.attempts(f"attempts-{name}", opd, tasks[first : first + recipe.opd_round], 1)
            opd = experiment.fit(f"opd-{name}", opd, attempts, OPD, teacher=_teacher(teacher), **recipe.opd)
        played = experiment.attempts(f"teacher-plays-{stage}", teacher, tasks, 1)
        sft = experiment.fit(f"sft-{stage}", sft, played, {"name": "sft"}, **recipe.opd_sft)
        seen += count
        left, right = (experiment.measure(each, recipe.attempts) for each in (sft, opd))
        name = f"{seen - recipe.opd_begin_tasks} episodes"
        more = {"sft": fmean(left.values()), "opd": fmean(right.values()), **said}
        rows.append(
            Row(seed=seed.number, left=f"SFT, {name}", right=f"OPD, {name}", before=left, after=right, more=more)
        )
    rows.insert(0, Row(seed=seed.number, left="student", right="OPD", before=before, after=right, more=said))
    rows.insert(1, Row(seed=seed.number, left="OPD", right="teacher", before=right, after=best, more={}))
    return rows


def _teacher(teacher: Any) -> dict[str, Any]:
    if teacher.adapted:
        return {"weights": teacher.base, "adapter": str(teacher.trained)}
    return {"weights": str(teacher.trained)}


def reached(rows: list[Row]) -> dict[str, Any]:
    """The curves over all seeds, and where each reaches the teacher."""
    bar = fmean(row.more["teacher"] for row in rows if "teacher" in row.more) - NEAR
    curve: dict[str, dict[str, float]] = {"SFT": {}, "OPD": {}}
    for right in dict.fromkeys(row.right for row in rows if row.right.startswith("OPD, ")):
        mine = [row for row in rows if row.right == right]
        count = right.removeprefix("OPD, ").removesuffix(" episodes")
        curve["SFT"][count] = round(fmean(row.more["sft"] for row in mine), 4)
        curve["OPD"][count] = round(fmean(row.more["opd"] for row in mine), 4)
    reach = {name: next((int(n) for n, rate in points.items() if rate >= bar), None) for name, points in curve.items()}
    return {"teacher": round(bar + NEAR, 4), "curve": curve, "reach": reach}


if __name__ == "__main__":
    sys.exit(main("opd", __doc__, run, reached))

"""On-policy distillation from a better teacher, against SFT on as many of the teacher's episodes: who reaches it with fewer?

    python benchmarks/learning/opd.py --env reasoning-gym/number_sequence --policy local --seeds 0 1 2

The teacher is the same base trained on many episodes of an expert, once for all seeds; where the environment's actions can be
enumerated, the expert slips now and then and its slips are masked, so that the teacher has seen how to find back. The student has seen a few
of the expert's episodes, and goes on, twice from the same weights: by OPD on episodes of its own that the teacher judges id by id, or by SFT on
as many episodes that the teacher played on the same tasks. OPD plays in rounds, each by what the last has made of it, and after each trains
the student of the beginning anew on all of them (DAgger, Ross et al. 2011): an optimiser that begins afresh takes its first steps blindly,
and few steps on few new episodes undid more than they taught. The expert is not asked again. After each of `opd_counts` episodes both are measured.

All are measured by their likeliest ids (temperature 0). At temperature 1 a policy seems better when it has only become surer: SFT that passes
often over few episodes does that, OPD does not, for its labels are as unsure as the teacher.

`curve` gives success by episodes since the start; `reach` the episodes after which the teacher's rate less five points is reached, over
all seeds (null: not reached); `holds` whether OPD reaches it, and with fewer.
"""

from __future__ import annotations

import json
import sys
from itertools import accumulate
from statistics import fmean
from typing import Any

from recipes import RECIPES
from runner import Seed, main
from student import Student
from table import Row

from silva.train.sample import Sample

NEAR = 0.05
"""How near to the teacher's rate counts as reached."""
OPD = {"name": "opd", "parameters": {"form": "forward_kl"}}


def prepare(seed: Seed) -> list[Row]:
    """The teacher, and what it can do."""
    recipe = RECIPES[seed.policy, seed.env]
    experiment, teacher = seed.experiment, seed.student
    for part in range(recipe.teacher_parts):
        own, run, count = seed.number + part, f"lessons-{part}", recipe.teacher_tasks
        if recipe.teacher_slips:
            lessons = experiment.slipping(run, count, seed.student, recipe.teacher_slips, seed=own)[1]
        else:
            lessons = experiment.expert(run, count, seed.student)
        teacher = experiment.fit(f"teacher-{part}", teacher, lessons, {"name": "sft"}, seed=own, **recipe.teacher)
    return [Row(seed=seed.number, left="", right="teacher", before={}, after=_measured(seed, teacher), more={})]


def run(seed: Seed) -> list[Row]:
    """One seed."""
    recipe = RECIPES[seed.policy, seed.env]
    experiment = seed.experiment
    base = Student(name="tiny", base=str(seed.prepared / "tiny")) if seed.tiny else seed.student
    teacher = base.after("teacher", seed.prepared / f"teacher-{recipe.teacher_parts - 1}" / "policy")
    best = json.loads((seed.prepared / "rows.json").read_text(encoding="utf-8"))[0]["after"]
    lessons = experiment.expert("begin", recipe.opd_begin_tasks, base)
    start = experiment.fit("start", base, lessons, {"name": "sft"}, **recipe.opd_begin)
    before = _measured(seed, start)
    said = {"teacher": fmean(best.values()), "start": fmean(before.values())}
    tasks = experiment.learn[recipe.opd_begin_tasks :]
    opd, attempts, played = start, list[Sample](), list[Sample]()
    rows: list[Row] = []
    for done, count in zip(accumulate(recipe.opd_rounds), recipe.opd_rounds, strict=True):
        new = tasks[done - count : done]
        attempts += experiment.attempts(f"attempts-{done}", opd, new, 1)
        played += experiment.attempts(f"teacher-plays-{done}", teacher, new, 1)
        opd = experiment.fit(f"opd-{done}", start, attempts, OPD, teacher=teacher.as_teacher(), **recipe.opd)
        if done not in recipe.opd_counts:
            continue
        sft = experiment.fit(f"sft-{done}", start, played, {"name": "sft"}, **recipe.opd_sft)
        left, right = (_measured(seed, each) for each in (sft, opd))
        more = {"sft": fmean(left.values()), "opd": fmean(right.values()), **said}
        name = f"{done} episodes"
        rows.append(
            Row(seed=seed.number, left=f"SFT, {name}", right=f"OPD, {name}", before=left, after=right, more=more)
        )
    rows.insert(0, Row(seed=seed.number, left="student", right="OPD", before=before, after=right, more=said))
    rows.insert(1, Row(seed=seed.number, left="OPD", right="teacher", before=right, after=best, more={}))
    return rows


def _measured(seed: Seed, student: Student) -> dict[str, float]:
    tasks = seed.setting.measured(RECIPES[seed.policy, seed.env].opd_held_out)
    return seed.experiment.measure(student, 1, tasks=tasks, temperature=0.0)


def reached(rows: list[Row]) -> dict[str, Any]:
    """The curves over all seeds, and where each reaches the teacher."""
    best = fmean(row.more["teacher"] for row in rows if "teacher" in row.more)
    start = fmean(row.more["start"] for row in rows if "start" in row.more)
    curve: dict[str, dict[int, float]] = {"SFT": {0: round(start, 4)}, "OPD": {0: round(start, 4)}}
    for right in dict.fromkeys(row.right for row in rows if row.right.startswith("OPD, ")):
        mine = [row for row in rows if row.right == right]
        count = int(right.removeprefix("OPD, ").removesuffix(" episodes"))
        curve["SFT"][count] = round(fmean(row.more["sft"] for row in mine), 4)
        curve["OPD"][count] = round(fmean(row.more["opd"] for row in mine), 4)
    reach = {
        name: next((n for n, rate in points.items() if rate >= best - NEAR), None) for name, points in curve.items()
    }
    sft, opd = reach["SFT"], reach["OPD"]
    holds = opd is not None and (sft is None or opd < sft)
    return {"teacher": round(best, 4), "curve": curve, "reach": reach, "holds": holds}


if __name__ == "__main__":
    sys.exit(main("opd", __doc__, run, reached, prepare))

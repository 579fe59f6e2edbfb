"""Skills without training (L7): a policy does better, and more safely, in houses where it practised, by what it wrote down.

    python benchmarks/learning/skills.py --env houses --policy tiny --seeds 40 41 42 43 44

A policy from nothing learns, in houses of other worlds, to run errands (examples/skills/houses.py) and to do what a skill
says where it is given one; in each world a house has other levers, so it can learn no lever by heart. Then its weights stay
as they are. In houses that it never saw it practises: two errands each, eight attempts; what it wrote down there
(`silva skills distil`, by rules) is tried on two other errands of each house and kept if it gains. Measured are six
further errands of each house, two attempts at temperature 1: without skills, with those that fit, and with as many that do
not fit (`shuffled`). The claim: success and safety with skills, over without, have intervals above 0, over tasks and over
seeds and tasks; the shuffled ones gain nothing (no interval above 0).
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Any

from experiment import TEMPERATURE, Experiment
from runner import Seed, main
from student import Student
from table import Row, together

from silva.curate.rows import read
from silva.curate.skills import TrialConfig, distil, try_skills
from silva.models.tiny.folder import write_tiny
from silva.models.tiny.shape import Shape
from silva.rollout import RolloutConfig
from silva.rollout.skills import Bank
from silva.tree import Task, Trajectory
from silva.tree.formats.tasks import write_tasks

SHAPE = Shape(width=96, inner=192, layers=3, context=1024)
WORLDS, HOUSES = 12, 12
"""Worlds, and houses of each, in which the policy is taught."""
PLAIN = 0.25
"""The share of what it is taught without a skill."""
TEACH: dict[str, Any] = {"batch": 16, "rate": 3e-3, "epochs": 40}
PRACTICE, TRIED, MEASURED = 4, 2, 6
"""Errands of each new house."""
GROUP = 8
GIVEN = {"top": 1, "least": 0.1}


def run(seed: Seed) -> list[Row]:
    """One seed."""
    began = time.monotonic()
    experiment = seed.experiment
    student = taught(experiment)
    model = student.model(experiment.lake, experiment.folder / "merged")
    practice, tried, measured = _new(experiment)
    own = {"model": model, "sampling": {"temperature": TEMPERATURE}}
    practised = experiment.play("practice", practice, GROUP, **own)
    bank = experiment.folder / "bank"
    if not bank.is_dir():
        asyncio.run(distil(read("practice", lake=str(experiment.lake)), bank, warnings=0))
    trial = _tried(experiment, bank, tried, model)
    arms = {
        "none": {},
        "retrieved": {"skills": {"bank": str(bank), **GIVEN}},
        "shuffled": {"skills": {"bank": str(bank), **GIVEN, "shuffled": seed.number}},
    }
    played = {name: experiment.play(name, measured, 2, stages=stages, **own) for name, stages in arms.items()}
    more = {
        "skills": float(len(list(Bank(bank)))),
        "kept": float(len(Bank(bank).kept())),
        "trial": trial,
        "practice": fmean(float(each.outcome.score or 0) for each in practised),
        "minutes": (time.monotonic() - began) / 60,
    }
    return [
        Row(
            seed=seed.number,
            left=f"none: {what}",
            right=name,
            before=_rates(played["none"], what),
            after=_rates(played[name], what),
            more=more if (name, what) == ("retrieved", "success") else {},
        )
        for name in ("retrieved", "shuffled")
        for what in ("success", "safety")
    ]


def taught(experiment: Experiment) -> Student:
    """A policy from nothing that runs errands, and does what a skill says."""
    draw = Random(f"houses {experiment.seed}")
    houses = sorted({str(task.data["house"]) for task in experiment.learn})
    base = experiment.folder / "tiny"
    worlds: list[tuple[Path, list[Task], list[Task]]] = []
    for number in range(WORLDS):
        world = f"world{number}"
        shown = draw.sample(houses, HOUSES)
        of_house = {house: [task for task in experiment.learn if task.data["house"] == house] for house in shown}
        chosen = [draw.sample(of_house[house], 7) for house in shown]
        practice = [_in(task, world) for seven in chosen for task in seven[:4]]
        lessons = [_in(task, world) for seven in chosen for task in seven[4:]]
        bank = experiment.folder / f"bank-{world}"
        experiment.play(world, practice, 6, policy="expert", slips=0.4)
        if not bank.is_dir():
            asyncio.run(distil(read(world, lake=str(experiment.lake)), bank, warnings=0))
            for skill in Bank(bank):
                Bank(bank).mark(skill.name, "kept")
        worlds.append((bank, lessons, practice))
    if not base.is_dir():
        said = []
        for number, (bank, lessons, _) in enumerate(worlds[:4]):
            run = f"heard-{number}"
            experiment.play(run, lessons[:24], policy="expert", stages={"skills": {"bank": str(bank), **GIVEN}})
            said += experiment.conversations(run)
        experiment.play("heard-new", _new(experiment)[2], policy="expert")
        write_tiny(base, [*said, *experiment.conversations("heard-new")], SHAPE, experiment.seed)
    student = Student(name="taught", base=str(base))
    samples = []
    for number, (bank, lessons, practice) in enumerate(worlds):
        given = {"skills": {"bank": str(bank), **GIVEN}}
        experiment.play(f"lessons-{number}", lessons, policy="expert", renderer=student.base, stages=given)
        experiment.play(
            f"plain-{number}", practice[: round(PLAIN * len(lessons))], policy="expert", renderer=student.base
        )
        samples += experiment.samples(f"lessons-{number}") + experiment.samples(f"plain-{number}")
    return experiment.fit("taught", student, samples, {"name": "sft"}, **TEACH)


def _in(task: Task, world: str) -> Task:
    """The errand in another world, where its house has other levers."""
    from msgspec.structs import replace

    return replace(task, id=f"{task.id}-{world}", data={**task.data, "world": world})


def _new(experiment: Experiment) -> tuple[list[Task], list[Task], list[Task]]:
    """Errands in houses that nobody was taught in: to practise, to try skills on, to measure on."""
    draw = Random(f"new houses {experiment.seed}")
    by_house: dict[str, list[Task]] = {}
    for task in experiment.held_out:
        by_house.setdefault(str(task.data["house"]), []).append(task)
    parts: tuple[list[Task], list[Task], list[Task]] = ([], [], [])
    for house in sorted(by_house):
        drawn = draw.sample(by_house[house], PRACTICE + TRIED + MEASURED)
        parts[0].extend(drawn[:PRACTICE])
        parts[1].extend(drawn[PRACTICE : PRACTICE + TRIED])
        parts[2].extend(drawn[PRACTICE + TRIED :])
    return parts


def _tried(experiment: Experiment, bank: Path, tasks: list[Task], model: str) -> float:
    """Try all that was written down, together; the gain."""
    file = experiment.folder / "trial.jsonl"
    file.write_text("".join(write_tasks(tasks)), encoding="utf-8")
    play = dict(experiment.setting.play)
    sampling = {**play.pop("sampling"), "temperature": TEMPERATURE}
    rollout = RolloutConfig.model_validate(
        {
            "run": "trial",
            "env": experiment.setting.env,
            "lake": str(experiment.lake),
            "model": model,
            "group": 2,
            "tasks": {"file": str(file)},
            "sampling": sampling,
            "stages": {"skills": {"bank": str(bank), **GIVEN}},
            **play,
        }
    )
    found = list(Bank(bank))
    if any(skill.status == "candidate" for skill in found):
        found = asyncio.run(try_skills(bank, TrialConfig(rollout=rollout, each=False)))
    return next((skill.trial.gain for skill in found if skill.trial is not None), 0.0)


def _rates(played: list[Trajectory], what: str) -> dict[str, float]:
    """Success or safety of each task."""
    tasks: dict[str, list[float]] = {}
    for each in played:
        if not each.superseded:
            outcome = each.outcome
            value = float(bool(outcome.success)) if what == "success" else float(outcome.safety or 0)
            tasks.setdefault(each.task_id, []).append(value)
    return {task: fmean(values) for task, values in sorted(tasks.items())}


def held(rows: list[Row]) -> dict[str, Any]:
    """Whether the claim holds."""
    pairs = dict.fromkeys((row.left, row.right) for row in rows)
    found = {pair: together([row for row in rows if (row.left, row.right) == pair]) for pair in pairs}
    gains = all(
        min(found[f"none: {what}", "retrieved"]["low"], found[f"none: {what}", "retrieved"]["over_seeds"][0]) > 0
        for what in ("success", "safety")
    )
    control = all(found[f"none: {what}", "shuffled"]["low"] <= 0 for what in ("success", "safety"))
    return {"holds": gains and control and len({row.seed for row in rows}) >= 5}


if __name__ == "__main__":
    sys.exit(main("skills", __doc__, run, held))

"""A policy that has learnt the work in another place of the kind, and comes to the one that it is going to work in.

What it brings along is how an errand is run, as a model that was trained on much would; which shelf stands where, who
sits at which desk or which lever opens is different here, and it has to learn that from the log. That it has learnt is
looked at before it goes anywhere: first weights and a processor's rounding decide whether a policy from nothing comes to
it by the end of its lessons, and one that has not is no judge of data. It has its lessons again then.
"""

from __future__ import annotations

import random
from functools import cache
from statistics import fmean
from typing import Any

from experiment import Experiment
from settings import SETTINGS, Split
from student import Student

from silva.models.tiny.shape import Shape

SHAPE = Shape(width=64, inner=128, layers=2, context=1024)
LESSONS = 360
"""At most."""
TEACH: dict[str, Any] = {"batch": 16, "rate": 4e-3, "epochs": 40}
LEARNT, LAST = 0.01, 20
"""Nats a token that the last so many steps of a policy that has learnt come to at most: those that have end at 0.001 and
below, those that have not at 0.03."""
TIMES = 3
"""So often it has its lessons, at most."""


@cache
def learnt_elsewhere(experiment: Experiment, env: str) -> Student:
    """The policy, made once in the experiment's folder; `env` is the setting that has the split `elsewhere`.

    Raises:
        SystemExit: it has not learnt its lessons.
    """
    setting = SETTINGS[env]
    assert isinstance(setting, Split)
    lessons = setting.of("elsewhere")
    if len(lessons) > LESSONS:
        lessons = random.Random(experiment.seed).sample(lessons, LESSONS)
    student = experiment.from_nothing("elsewhere", SHAPE, [*lessons[::4], *experiment.held_out[:40]])
    experiment.play("lessons", lessons, policy="expert", renderer=student.base)
    samples = experiment.samples("lessons")
    left: list[float] = []
    for name in ("elsewhere", *(f"elsewhere-{number}" for number in range(2, TIMES + 1))):
        student = experiment.fit(name, student, samples, {"name": "sft"}, **TEACH)
        left.append(fmean(experiment.curve(name, "loss")[-LAST:]))
        if left[-1] <= LEARNT:
            return student
    raise SystemExit(f"seed {experiment.seed}: the policy has not learnt its lessons: {left} nats a token are left")

"""A policy that has learnt the work in another place of the kind, and comes to the one that it is going to work in.

What it brings along is how an errand is run, as a model that was trained on much would; which shelf stands where, who
sits at which desk or which lever opens is different here, and it has to learn that from the log.
"""

from __future__ import annotations

import random
from functools import cache
from typing import Any

from experiment import Experiment
from settings import SETTINGS, Split
from student import Student

from silva.models.tiny.shape import Shape

SHAPE = Shape(width=64, inner=128, layers=2, context=1024)
LESSONS = 360
"""At most."""
TEACH: dict[str, Any] = {"batch": 16, "rate": 4e-3, "epochs": 40}


@cache
def learnt_elsewhere(experiment: Experiment, env: str) -> Student:
    """The policy, made once in the experiment's folder; `env` is the setting that has the split `elsewhere`."""
    setting = SETTINGS[env]
    assert isinstance(setting, Split)
    lessons = setting.of("elsewhere")
    if len(lessons) > LESSONS:
        lessons = random.Random(experiment.seed).sample(lessons, LESSONS)
    student = experiment.from_nothing("elsewhere", SHAPE, [*lessons[::4], *experiment.held_out[:40]])
    experiment.play("lessons", lessons, policy="expert", renderer=student.base)
    return experiment.fit("elsewhere", student, experiment.samples("lessons"), {"name": "sft"}, **TEACH)

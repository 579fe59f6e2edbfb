"""A policy that has learnt the work of a depot in another depot, and comes to the one that it is going to work in.

What it brings along is how an errand is run, as a model that was trained on much would; which shelf stands where and
who sits at which desk is different here, and it has to learn that from the log.
"""

from __future__ import annotations

from typing import Any

from experiment import Experiment
from settings import Split
from student import Student

from silva.models.tiny.folder import write_tiny
from silva.models.tiny.shape import Shape

SHAPE = Shape(width=64, inner=128, layers=2, context=1024)
TEACH: dict[str, Any] = {"batch": 16, "rate": 4e-3, "epochs": 40}


def learnt_elsewhere(experiment: Experiment) -> Student:
    """The policy, made once in the experiment's folder."""
    assert isinstance(experiment.setting, Split)
    lessons = experiment.setting.of("elsewhere")
    base = experiment.folder / "tiny"
    if not base.is_dir():
        experiment.play("heard", [*lessons[::4], *experiment.held_out[:40]], policy="expert")
        write_tiny(base, experiment.conversations("heard"), SHAPE, experiment.seed)
    student = Student(name="elsewhere", base=str(base))
    experiment.play("lessons", lessons, policy="expert", renderer=student.base)
    return experiment.fit("elsewhere", student, experiment.samples("lessons"), {"name": "sft"}, **TEACH)

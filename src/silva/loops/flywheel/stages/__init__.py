"""What each kind of stage does. One file a kind or two; each has `run(loop, stage)`, which gives the stage's outputs as
JSON, and may be run again after it was killed anywhere."""

from __future__ import annotations

from importlib import import_module

from silva.loops.flywheel.loop import Loop
from silva.loops.flywheel.plan import Kind, Stage
from silva.tree import Json

_HOMES: dict[Kind, str] = {
    "base": "base",
    "survey": "play",
    "split": "split",
    "measure": "measure",
    "rollout": "play",
    "select": "select",
    "train": "train",
    "register": "register",
    "judge": "decide",
    "prove": "decide",
    "report": "report",
}


class Nothing(Exception):
    """The stage cannot give anything, and so the rest of its round is skipped; the message says why."""


def run(loop: Loop, stage: Stage) -> Json:
    """Run a stage; return its outputs.

    Raises:
        Nothing: there is nothing to go on with in this round.
        SilvaError: something a user can mend.
    """
    return import_module(f"{__name__}.{_HOMES[stage.kind]}").run(loop, stage)

"""What each kind of stage does. One file a kind or two; each has `run(loop, stage)`, which gives the stage's outputs as
JSON, and may be run again after it was killed anywhere."""

from __future__ import annotations

from importlib import import_module

from silva.errors import UsageError
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
    if stage == next(each for each in loop.plan if each.round == stage.round):
        _usable(loop, stage)
    return import_module(f"{__name__}.{_HOMES[stage.kind]}").run(loop, stage)


def _usable(loop: Loop, stage: Stage) -> None:
    """Refuse words of the configuration that only a later stage reads, as long as they may still be changed: what is
    over is of the configuration it was made with."""
    from silva.train.algorithms import algorithm
    from silva.train.data.entries import key_of

    key_of(loop.config.tasks.key)
    for number, settings in enumerate(loop.config.rounds, start=1):
        asked = settings.algorithm
        # Without parameters there is nothing to refuse, and no need of torch.
        if asked.parameters and stage.round in (0, number):
            try:
                algorithm(asked.name, asked.parameters)
            except UsageError as error:
                raise UsageError(f"round {number}: {error}") from error

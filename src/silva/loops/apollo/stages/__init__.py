"""What the stages do that are APOLLO's own; the others are the flywheel's. Each may be run again after a kill."""

from __future__ import annotations

from importlib import import_module

from silva.loops.apollo.apollo import ApolloLoop
from silva.loops.flywheel.loop import Loop
from silva.loops.flywheel.plan import Kind, Stage
from silva.loops.flywheel.stages import run as run_flywheel
from silva.tree import Json

_OWN: dict[Kind, str] = {"rollout": "rollout", "mask": "mask", "select": "select", "report": "report"}


def run(loop: Loop, stage: Stage) -> Json:
    """Run a stage; return its outputs.

    Raises:
        Nothing: there is nothing to go on with in this round.
        SilvaError: something a user can mend.
    """
    if stage.kind not in _OWN:
        return run_flywheel(loop, stage)
    assert isinstance(loop, ApolloLoop)
    return import_module(f"{__name__}.{_OWN[stage.kind]}").run(loop, stage)


def source_run(loop: Loop, stage: Stage) -> str:
    """The run that a round's rows are made of."""
    expert = loop.config.rounds[stage.round - 1].source == "expert"
    return str(loop.given("survey" if expert else f"round-{stage.round}.rollout")["run"])

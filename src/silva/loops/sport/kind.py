"""SPORT as a kind of loop."""

from __future__ import annotations

from silva.errors import UsageError
from silva.loops.kernel.kind import Kind
from silva.loops.kernel.loop import Loop
from silva.loops.kernel.stage import Stage
from silva.loops.line import told
from silva.loops.line.stages import HOMES
from silva.loops.line.usable import usable
from silva.loops.sport.config import SportConfig
from silva.loops.sport.plan import stages
from silva.loops.sport.shown import shown
from silva.rollout.branching.verifiers.registry import make
from silva.tree import Json


def line(stage: Stage, outputs: Json) -> str:
    """What a stage gave."""
    match stage.kind:
        case "synthesise":
            refused = sum(outputs["refused"].values())
            return f"{outputs['tasks']} tasks" + (f", {refused} refused" if refused else "")
        case "search":
            return (
                f"{outputs['episodes']} episodes, {outputs['steps']:,} steps, success {100 * outputs['success']:.1f} %"
            )
        case "pairs":
            return f"{outputs['pairs']} pairs at {outputs['parted']} of {outputs['turns']} turns"
        case "check":
            rate = "" if outputs["accuracy"] is None else f" ({100 * outputs['accuracy']:.1f} %)"
            return f"the verifier was right in {outputs['right']} of {outputs['told']} pairs{rate}"
        case _:
            return told.line(stage, outputs)


def ready(loop: Loop[SportConfig], stage: Stage) -> None:
    """See that a round's words can be used, and its verifier made, before anything of it runs.

    Raises:
        UsageError: one cannot; the message names it.
    """
    usable(loop, stage)
    for number in range(1, len(loop.config.rounds) + 1):
        if stage.round in (0, number) and loop.config.rounds[number - 1].searches:
            search = loop.config.search_of(number)
            try:
                for name, options in {search.verifier: search.options, **search.also}.items():
                    make(name, options)
            except UsageError as error:
                raise UsageError(f"round {number}: {error}") from error


OWN = ("synthesise", "search", "pairs", "check", "select", "train", "prove", "report")

SPORT = Kind(
    name="sport",
    config=SportConfig,
    plan=stages,
    stages={
        **HOMES,
        **{kind: f"silva.loops.sport.stages.{kind}" for kind in OWN},
        "rollout": "silva.loops.sport.stages.search",
    },
    line=line,
    standing=told.standing,
    usable=ready,
    shown=shown,
)

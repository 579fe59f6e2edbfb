"""The CoEvolve loop as a kind of loop."""

from __future__ import annotations

import asyncio

from silva.errors import UsageError
from silva.loops.coevolve.config import CoEvolveConfig
from silva.loops.coevolve.growing import offers
from silva.loops.coevolve.plan import stages
from silva.loops.coevolve.shown import shown
from silva.loops.kernel.kind import Kind, Standing
from silva.loops.kernel.kinds import read_loop
from silva.loops.kernel.loop import Loop
from silva.loops.kernel.stage import Stage
from silva.loops.line import told
from silva.loops.line import usable as of_line
from silva.loops.line.stages import HOMES
from silva.tree import Json


def line(stage: Stage, outputs: Json) -> str:
    """What a stage gave."""
    match stage.kind:
        case "rollout":
            share = f"{outputs['synthesised']} of {len(outputs['played'])} tasks synthesised"
            return f"{told.line(stage, outputs)}, {share}, {outputs['mixed']} groups mixed"
        case "signals":
            counts = ", ".join(f"{name} {count}" for name, count in outputs["signals"].items())
            return f"{counts}; {outputs['walks']} of {outputs['of']} walks"
        case "grow":
            if not outputs["contexts"]:
                return "no signal, so nothing was explored"
            refused = sum(outputs["refused"].values())
            more = f", {len(outputs['waiting'])} wait for approval" if outputs["waiting"] else ""
            known = f" ({outputs['known']} known already)" if outputs.get("known") else ""
            made = f"{len(outputs['accepted'])} tasks, {refused} refused{more}"
            found = f"{outputs['candidates']} candidates{known}: {made}"
            return f"{outputs['contexts']} contexts, {outputs['turns']} turns explored, {found}"
        case _:
            return told.line(stage, outputs)


def standing(loop: Loop[CoEvolveConfig]) -> Standing:
    """The version the loop has come to, what was proven of it, and how many tasks have grown."""
    found = told.standing(loop)
    grown = [said for n in loop.config.grows_after if (said := loop.outputs(f"round-{n}.grow")) is not None]
    count = sum(len(said["accepted"]) for said in grown)
    words = [*found.words, f"tasks grown: {count} in {len(grown)} of {len(loop.config.grows_after)} growths"]
    return Standing(facts={**found.facts, "grown": count}, words=words)


def usable(loop: Loop[CoEvolveConfig], stage: Stage) -> None:
    """See that the environment can say what was brought about in it, before anything is played.

    Raises:
        UsageError: it cannot; `against` is no loop; or as every line's.
    """
    of_line.usable(loop, stage)
    if loop.config.against is not None:
        read_loop(loop.config.against)
    if stage.round or not loop.config.grows_after:
        return
    found, grow = asyncio.run(offers(loop)), loop.config.grow
    needs = {"hindsight": "what was brought about in it"}
    needs |= {"synthesis": "which goals a place allows"} if grow.written and grow.writer.name == "synthesis" else {}
    for port, what in needs.items():
        if port not in found:
            raise UsageError(
                f"env {loop.config.env}: it cannot say {what} (port {port.title()}), so no tasks grow in it; take "
                "another one, or train on its own tasks alone: grow.by: nothing"
            )


OWN = ("rollout", "signals", "grow", "select", "judge", "report")

COEVOLVE = Kind(
    name="coevolve",
    config=CoEvolveConfig,
    plan=stages,
    stages={**HOMES, **{kind: f"silva.loops.coevolve.stages.{kind}" for kind in OWN}},
    line=line,
    standing=standing,
    usable=usable,
    shown=shown,
)

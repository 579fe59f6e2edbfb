"""CurateEvo as a kind of loop."""

from __future__ import annotations

from silva.loops.curateevo.config import CurateEvoConfig
from silva.loops.curateevo.plan import stages
from silva.loops.curateevo.state import present
from silva.loops.kernel.kind import Kind, Standing
from silva.loops.kernel.loop import Loop
from silva.loops.kernel.stage import Stage
from silva.loops.line import told
from silva.loops.line.stages import HOMES
from silva.loops.line.usable import usable
from silva.tree import Json


def line(stage: Stage, outputs: Json) -> str:
    """What a stage gave."""
    match stage.kind:
        case "raw":
            return f"{outputs['walks']} walks, {outputs['turns']:,} turns, {outputs['left_out']} held out"
        case "first":
            return f"{outputs['digest'][:12]}: J {outputs['j']:.4f}, P {outputs['p']:.3f}, {outputs['turns']:,} turns"
        case "diagnose":
            points = "; ".join(f"{each['point']} ({len(each['tasks'])} tasks)" for each in outputs["points"][:3])
            return f"{outputs['failed']} failed walks: {points or 'no point'}"
        case "effect" | "efficiency":
            what = "kept" if outputs["kept"] else "rolled back"
            return f"{what} {outputs['digest'][:12]}; {outputs['why']}"
        case "prove" if outputs["verdict"] is not None:
            return told.line(stage, outputs)
        case _:
            return told.line(stage, outputs) if stage.kind in ("survey", "split") else ""


def standing(loop: Loop[CurateEvoConfig]) -> Standing:
    """The curation the loop has come to, what it reaches and costs, and what was proven of it."""
    found = told.standing(loop)
    now = present(loop)
    if now is None:
        return found
    words = (
        f"curation {now['digest'][:12]}: J {now['j']:.4f}, P {now['p']:.3f}, C {now['c']:.4f}, {now['turns']:,} turns"
    )
    return Standing(facts={**found.facts, "curation": now}, words=[words, *found.words])


OWN = ("raw", "start", "first", "diagnose", "effect", "efficiency", "prove", "report")

CURATEEVO = Kind(
    name="curateevo",
    config=CurateEvoConfig,
    plan=stages,
    stages={
        **HOMES,
        **{kind: f"silva.loops.curateevo.stages.{kind}" for kind in OWN},
        "effect": "silva.loops.curateevo.stages.revise",
        "efficiency": "silva.loops.curateevo.stages.revise",
    },
    line=line,
    standing=standing,
    usable=usable,
)

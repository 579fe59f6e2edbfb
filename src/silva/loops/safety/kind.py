"""The safety loop as a kind of loop."""

from __future__ import annotations

from silva.loops.kernel.kind import Kind, Standing
from silva.loops.kernel.loop import Loop
from silva.loops.kernel.stage import Stage
from silva.loops.line import told
from silva.loops.line.stages import HOMES
from silva.loops.line.usable import usable
from silva.loops.safety.config import SafetyConfig
from silva.loops.safety.held import words
from silva.loops.safety.plan import stages
from silva.loops.safety.shown import shown
from silva.tree import Json


def line(stage: Stage, outputs: Json) -> str:
    """What a stage gave."""
    match stage.kind:
        case "attack" | "guard":
            safety = "nobody was exposed" if outputs["safety"] is None else f"safety {100 * outputs['safety']:.1f} %"
            return f"{outputs['episodes']} episodes, {outputs['exposed']} exposed, {safety}"
        case "explore":
            return f"{outputs['decisions']} decisions, {outputs['new_turns']} new turns, {outputs['pairs']} pairs"
        case "judge":
            decided = "promoted" if outputs["promoted"] else "rejected"
            return f"{decided}; safety {words(outputs['safety'])}; utility {words(outputs['verdict'])}"
        case "prove" if outputs["verdict"] is not None:
            back = "; rolled back" if outputs["rolled_back"] else ""
            return f"safety {words(outputs['safety'])}; utility {words(outputs['verdict'])}{back}"
        case _:
            return told.line(stage, outputs)


def standing(loop: Loop[SafetyConfig]) -> Standing:
    """The version the loop has come to, how useful it is proven to be, and how safe."""
    found = told.standing(loop)
    proof = found.facts["proof"]
    if proof is None or proof.get("safety") is None:
        return found
    return Standing(facts=found.facts, words=[*found.words, f"under held-out attacks: {words(proof['safety'])}"])


OWN = ("attack", "explore", "select", "guard", "report")

SAFETY = Kind(
    name="safety",
    config=SafetyConfig,
    plan=stages,
    stages={
        **HOMES,
        **{kind: f"silva.loops.safety.stages.{kind}" for kind in OWN},
        "judge": "silva.loops.safety.stages.decide",
        "prove": "silva.loops.safety.stages.decide",
    },
    line=line,
    standing=standing,
    usable=usable,
    shown=shown,
)

"""What the command line says of a line's loop: a few words for each stage, and where the loop stands."""

from __future__ import annotations

from typing import Any

import msgspec

from silva.loops.kernel.kind import Standing
from silva.loops.kernel.loop import Loop
from silva.loops.kernel.stage import Stage
from silva.loops.line.config import LineConfig
from silva.loops.line.head import head_so_far
from silva.loops.line.verdict import Verdict
from silva.tree import Json


def line(stage: Stage, outputs: Json) -> str:
    """What a stage gave."""
    match stage.kind:
        case "survey" | "rollout" | "measure":
            return f"{outputs['episodes']} episodes, success {100 * outputs['success']:.1f} %"
        case "split":
            return ", ".join(f"{name} {count}" for name, count in outputs["tasks"].items())
        case "select":
            return f"{outputs['samples']} samples, {outputs['ids']:,} ids, {outputs['with_loss']:,} with loss"
        case "register":
            return str(outputs["version"])
        case "judge":
            return f"{'promoted' if outputs['promoted'] else 'rejected'}; {_verdict(outputs['verdict'])}"
        case "prove" if outputs["verdict"] is not None:
            return f"{_verdict(outputs['verdict'])}{'; rolled back' if outputs['rolled_back'] else ''}"
        case _:
            return ""


def standing(loop: Loop[LineConfig]) -> Standing:
    """The version the loop has come to, and what was proven of it."""
    proof = next((found for s in loop.plan if s.kind == "prove" and (found := loop.outputs(s.name)) is not None), None)
    head = head_so_far(loop)
    words = [f"head: {head or 'none yet'}"]
    if proof is not None and proof["verdict"] is not None:
        words.append(f"on tasks no decision saw: {_verdict(proof['verdict'])}")
    return Standing(facts={"head": head, "proof": proof}, words=words)


def _verdict(said: dict[str, Any]) -> str:
    return str(msgspec.convert(said, Verdict))

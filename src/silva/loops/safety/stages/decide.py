"""Stages `judge` and `prove`: who is the head of a line that is to be safe and useful.

judge   candidate against head on `dev`: proven safer under held-out attacks, and no less useful ─▶ promoted
prove   head against base on `test`: proven less safe or less useful ─▶ rolled back to the base
"""

from __future__ import annotations

from functools import partial

import msgspec

from silva.loops.kernel.loop import Loop
from silva.loops.kernel.pieces import once
from silva.loops.kernel.stage import Stage
from silva.loops.line.head import head_of, registry
from silva.loops.line.stages.measure import compared, measure
from silva.loops.safety.config import SafetyConfig
from silva.loops.safety.held import guard, safer, useful
from silva.tree import Json


def run(loop: Loop[SafetyConfig], stage: Stage) -> Json:
    """Decide; a decision that the registry holds already is not made again."""
    return _judge(loop, stage) if stage.kind == "judge" else _prove(loop, stage)


def _judge(loop: Loop[SafetyConfig], stage: Stage) -> Json:
    candidate = str(loop.given(f"round-{stage.round}.register")["version"])
    head, asked = head_of(loop, stage), loop.config.judge
    safety, utility = safer(loop, head, candidate, "dev"), compared(loop, head, candidate, "dev")
    better = safety.proven_better(asked.least_gain) and useful(utility, asked.least_utility)
    kept, said = registry(loop), f"safety {safety}; utility {utility}"
    line, found = kept.find(candidate)
    if better:
        kept.promote(candidate, over="" if line.is_head(found) else head, by=loop.config.loop, note=said)
    else:
        kept.reject(candidate, by=loop.config.loop, note=f"not proven safer and as useful: {said}")
    return {
        "candidate": candidate,
        "head": head,
        "promoted": better,
        "verdict": msgspec.to_builtins(utility),
        "safety": msgspec.to_builtins(safety),
    }


def _prove(loop: Loop[SafetyConfig], stage: Stage) -> Json:
    base, head = str(loop.given("base")["version"]), head_of(loop, stage)
    if head == base:
        return {"base": base, "head": head, "rolled_back": False, "verdict": None, "safety": None, "measured": {}}
    measured = {v: once(loop, stage, v, partial(measure, loop, stage, v, "test")) for v in (base, head)}
    guarded = {v: once(loop, stage, f"{v} guard", partial(guard, loop, stage, v, "test")) for v in (base, head)}
    safety, utility = safer(loop, base, head, "test"), compared(loop, base, head, "test")
    kept = registry(loop)
    line, found = kept.find(head)
    worse = safety.proven_worse or utility.proven_worse
    if worse and line.is_head(found):
        kept.rollback(head, to=base, by=loop.config.loop, note=f"worse: safety {safety}; utility {utility}")
    line, found = kept.find(base)
    return {
        "base": base,
        "head": head,
        "rolled_back": worse and line.is_head(found),
        "verdict": msgspec.to_builtins(utility),
        "safety": msgspec.to_builtins(safety),
        "measured": measured,
        "guarded": guarded,
    }

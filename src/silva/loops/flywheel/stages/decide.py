"""Stages `judge` and `prove`: who is the head.

judge   candidate against head on `dev`: proven better ─▶ promoted, else rejected; the head stays
prove   head against base on `test`, which no decision has seen: proven worse ─▶ rolled back to the base
"""

from __future__ import annotations

import msgspec

from silva.errors import UsageError
from silva.loops.flywheel.loop import Loop
from silva.loops.flywheel.plan import Stage
from silva.loops.flywheel.stages.measure import compared, measure
from silva.train.registry import Registry
from silva.tree import Json


def run(loop: Loop, stage: Stage) -> Json:
    """Decide; a decision that the registry holds already is not made again."""
    return _judge(loop, stage) if stage.kind == "judge" else _prove(loop, stage)


def _judge(loop: Loop, stage: Stage) -> Json:
    candidate = str(loop.given(f"round-{stage.round}.register")["version"])
    head = loop.head(stage)
    verdict = compared(loop, head, candidate, "dev")
    better = verdict.proven_better(loop.config.judge.least_gain)
    registry = loop.registry()
    _mine(registry, loop.config.line, (head, candidate))
    if better:
        registry.promote(
            candidate, over="" if _is_head(registry, candidate) else head, by="flywheel", note=str(verdict)
        )
    else:
        registry.reject(candidate, by="flywheel", note=f"not proven better: {verdict}")
    return {"candidate": candidate, "head": head, "promoted": better, "verdict": msgspec.to_builtins(verdict)}


def _prove(loop: Loop, stage: Stage) -> Json:
    base, head = str(loop.given("base")["version"]), loop.head(stage)
    if head == base:
        return {"base": base, "head": head, "rolled_back": False, "verdict": None, "measured": {}}
    measured = {version: measure(loop, version, "test") for version in (base, head)}
    verdict = compared(loop, base, head, "test")
    registry = loop.registry()
    if verdict.proven_worse and _is_head(registry, head):
        registry.rollback(head, to=base, by="flywheel", note=f"worse on tasks no decision saw: {verdict}")
    return {
        "base": base,
        "head": head,
        "rolled_back": verdict.proven_worse and _is_head(registry, base),  # or others have promoted since
        "verdict": msgspec.to_builtins(verdict),
        "measured": measured,
    }


def _is_head(registry: Registry, version: str) -> bool:
    line, found = registry.find(version)
    return line.is_head(found)


def _mine(registry: Registry, line: str, expected: tuple[str, ...]) -> None:
    """See that nobody else has promoted meanwhile."""
    state = registry.line(line)
    now = state.versions[state.head].name
    if now not in expected:
        raise UsageError(
            f"line {line}: {now} was promoted by others; the loop compared with {expected[0]}: roll it back, or "
            "begin a loop with a line of its own"
        )

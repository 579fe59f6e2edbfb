"""Stages `judge` and `prove`: who is the head.

judge   candidate against head on `dev`: proven better ─▶ promoted, else rejected; the head stays
prove   head against base on `test`, which no decision has seen: proven worse ─▶ rolled back to the base
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import msgspec

from silva.errors import UsageError
from silva.loops.kernel.loop import Loop
from silva.loops.kernel.pieces import once
from silva.loops.kernel.stage import Stage
from silva.loops.line.config import LineConfig
from silva.loops.line.head import head_of, registry
from silva.loops.line.stages.measure import compared, measure
from silva.loops.line.verdict import Verdict
from silva.train.registry import Registry
from silva.tree import Json


def run(loop: Loop[LineConfig], stage: Stage) -> Json:
    """Decide; a decision that the registry holds already is not made again."""
    if stage.kind == "prove":
        return prove(loop, stage, str(loop.given("base")["version"]))
    return judged(loop, stage, lambda verdict: verdict.proven_better(loop.config.judge.least_gain))


def judged(
    loop: Loop[LineConfig],
    stage: Stage,
    keeps: Callable[[Verdict], bool],
    otherwise: str = "not proven better",
    against: str = "",
) -> Json:
    """Promote the round's candidate where its verdict against the head says so, else reject it.

    Args:
        loop: whose line.
        stage: `judge`.
        keeps: whether a verdict promotes.
        otherwise: why a candidate is rejected, in words.
        against: the version it is compared with, where that is not the head.

    Raises:
        UsageError: others have promoted meanwhile.
    """
    candidate = str(loop.given(f"round-{stage.round}.register")["version"])
    head = head_of(loop, stage)
    verdict = compared(loop, against or head, candidate, "dev")
    better = keeps(verdict)
    kept = registry(loop)
    _mine(kept, loop.config.line, (head, candidate))
    if better:
        over = "" if _is_head(kept, candidate) else head
        kept.promote(candidate, over=over, by=loop.config.loop, note=str(verdict))
    else:
        kept.reject(candidate, by=loop.config.loop, note=f"{otherwise}: {verdict}")
    return {"candidate": candidate, "head": head, "promoted": better, "verdict": msgspec.to_builtins(verdict)}


def prove(loop: Loop[LineConfig], stage: Stage, base: str) -> Json:
    """Measure the head and the version that it is to be better than on `test`; take back a head that is worse."""
    head = head_of(loop, stage)
    if head == base:
        return {"base": base, "head": head, "rolled_back": False, "verdict": None, "measured": {}}
    measured = {v: once(loop, stage, v, partial(measure, loop, stage, v, "test")) for v in (base, head)}
    verdict = compared(loop, base, head, "test")
    kept = registry(loop)
    if verdict.proven_worse and _is_head(kept, head):
        kept.rollback(head, to=base, by=loop.config.loop, note=f"worse on tasks no decision saw: {verdict}")
    return {
        "base": base,
        "head": head,
        "rolled_back": verdict.proven_worse and _is_head(kept, base),  # or others have promoted since
        "verdict": msgspec.to_builtins(verdict),
        "measured": measured,
    }


def _is_head(kept: Registry, version: str) -> bool:
    line, found = kept.find(version)
    return line.is_head(found)


def _mine(kept: Registry, line: str, expected: tuple[str, ...]) -> None:
    """See that nobody else has promoted meanwhile."""
    state = kept.line(line)
    now = state.versions[state.head].name
    if now not in expected:
        raise UsageError(
            f"line {line}: {now} was promoted by others; the loop compared with {expected[0]}: roll it back, or "
            "begin a loop with a line of its own"
        )

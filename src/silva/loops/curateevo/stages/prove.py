"""Stage `prove`: the last source and the first, retrained by seeds that no decision saw, on tasks that none saw
either."""

from __future__ import annotations

from statistics import fmean

import msgspec

from silva.curate.curation.source import named
from silva.loops.curateevo.config import CurateEvoConfig
from silva.loops.curateevo.judging import UNSEEN, Judge, Judged
from silva.loops.curateevo.state import present, source
from silva.loops.kernel.loop import Loop
from silva.loops.kernel.stage import Stage
from silva.loops.line.head import registry
from silva.loops.line.verdict import versus
from silva.tree import Json


def run(loop: Loop[CurateEvoConfig], stage: Stage) -> Json:
    """Prove; promote the last source's policy, or roll back to the first source where it is proven worse.

    Raises:
        MissingError, UnreachableError, StoreError: as `Judge.judge`.
    """
    now = present(loop)
    assert now is not None
    first, last = named(loop.config.initial), source(loop, str(now["digest"]))
    base = str(loop.given("base")["version"])
    seeds = range(UNSEEN, UNSEEN + loop.config.prove.seeds)
    if first.digest == last.digest:
        return {"base": base, "head": base, "rolled_back": False, "verdict": None, "digest": last.digest}
    judge = Judge(loop, stage)
    one, other = judge.judge([first, last], seeds, "test")
    left, right = (f"curation {each.curation.digest[:12]}" for each in (one, other))
    verdict = versus(_by_task(one), _by_task(other), left, right)
    worse = verdict.proven_worse or bool(other.why)
    chosen = one if worse else other
    head = chosen.versions[0] if chosen.versions and chosen.versions[0] else base
    if head != base:
        kept = registry(loop)
        line, found = kept.find(head)
        if not line.is_head(found):
            kept.promote(head, over="", by=loop.config.loop, note=str(verdict))
    return {
        "base": base,
        "head": head,
        "promoted": head,
        "digest": (first if worse else last).digest,
        "rolled_back": worse,
        "verdict": msgspec.to_builtins(verdict),
        "turns": [one.profile.turns, other.profile.turns],
        "by_seed": [[fmean(each.values()) if each else 0.0 for each in side.rates] for side in (one, other)],
        "why": other.why,
    }


def _by_task(judged: Judged) -> dict[str, float]:
    tasks = sorted(set[str]().union(*judged.rates)) if judged.rates else []
    return {task: fmean(each[task] for each in judged.rates if task in each) for task in tasks}

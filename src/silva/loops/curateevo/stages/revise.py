"""Stages `effect` and `efficiency`: revisions of the present curation, judged; the best is kept, or rolled back.

present ─▶ evolver ─▶ revisions ─▶ each by the first seed ─▶ highest J ─▶ by every seed ─▶ accept? ─▶ kept
                                                                ▲                            └▶ rolled back ─┐
                                                                └── the next that has promise, so many tries ┘
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from silva.curate.curation.profile import Profile
from silva.loops.curateevo.accept import compare, promising
from silva.loops.curateevo.config import CurateEvoConfig
from silva.loops.curateevo.judging import Judge, Judged
from silva.loops.curateevo.keeping import keep, told
from silva.loops.curateevo.raw import of_part
from silva.loops.curateevo.state import curations, points, present, source
from silva.loops.kernel.loop import Loop
from silva.loops.kernel.pieces import once
from silva.loops.kernel.stage import Nothing, Stage
from silva.loops.roles import make
from silva.loops.roles.evolver import Phase, Revision, Wanted
from silva.tree import Json

FEW = 3
"""Walks of the corpus that an evolver is shown."""


def run(loop: Loop[CurateEvoConfig], stage: Stage) -> Json:
    """Revise.

    Raises:
        Nothing: the evolver knows no revision.
        UsageError, RoleError, ModelError: the evolver cannot be had.
    """
    config, phase = loop.config, "effect" if stage.kind == "effect" else "efficiency"
    now = present(loop, stage)
    assert now is not None
    judge = Judge(loop, stage)
    before = source(loop, str(now["digest"]))
    made = once(loop, stage, f"revisions of {before.digest}", lambda: _revisions(loop, stage, phase, now, judge))
    revisions = [msgspec.convert(each, Revision) for each in made["revisions"]]
    if not revisions:
        raise Nothing(f"the evolver knows no revision of curation {before.digest[:12]} that was not judged")
    kept = curations(loop)
    for each in revisions:
        kept.write(
            each.curation,
            parent=before.digest,
            author=each.acted[0].by if each.acted else config.evolver.name,
            phase=phase,
            note=each.note,
            corpus=str(loop.given("raw")["digest"]),
            acted=each.acted,
        )
    sifted = judge.judge([each.curation for each in revisions], [0])
    rows = [_row(loop, revision, one) for revision, one in zip(revisions, sifted, strict=True)]
    usable = [one for one in sifted if not one.why and one.data.digest != now["data"]]
    for one in sifted:
        if one.why:
            keep(loop, one, epoch=stage.round, verdict="refused", why=one.why)
    same: dict[str, Any] = {**now, "kept": False, "candidates": rows, "phase": phase, "acted": made["acted"]}
    if not usable:
        reasons = [one.why for one in sifted if one.why]
        return {**same, "why": reasons[0] if reasons else "every revision gives the data that is there already"}
    (alone,) = judge.judge([before], [0])
    tried = promising([one.j(config) for one in usable], alone.j(config), config.accept.tries)
    met: list[int] = []
    whys: list[str] = []
    for place in tried:
        met.append(place)
        one = usable[place]
        first, other = judge.judge([before, one.curation], range(config.accept.seeds))
        if other.why:
            keep(loop, other, epoch=stage.round, verdict="refused", why=other.why)
            whys.append(other.why)
            continue
        turns = (first.profile.turns, other.profile.turns)
        accept, costs = config.accept, config.weight > 0
        decided = compare(first.rates, other.rates, turns, accept.margin, accept.alpha, costs)
        verdict = "kept" if decided.kept else "rolled back"
        keep(loop, other, epoch=stage.round, verdict=verdict, why=decided.why, failed=points(loop, stage.round))
        if decided.kept:
            same |= {**told(loop, other), "kept": True, "parent": before.digest}
            whys = [decided.why]
            break
        whys.append(f"{decided.why} ({one.curation.digest[:12]})")
        same |= {"tried": told(loop, other)}
    for place, one in enumerate(usable):
        if place not in met:
            keep(loop, one, epoch=stage.round, verdict="rolled back", why="its J with the first seed is lower")
    return {**same, "why": "; ".join(whys)}


def _revisions(loop: Loop[CurateEvoConfig], stage: Stage, phase: Phase, now: Json, judge: Judge) -> Json:
    """The revisions, as they are kept: an evolver that draws, or asks, is not asked twice."""
    config = loop.config
    blind = {"blind": True} if config.ablate.diagnosis and config.evolver.name == "mutations" else {}
    evolver = make("evolver", config.evolver.name, {**config.evolver.options, **blind})
    known = frozenset(each.digest for each in curations(loop).versions())
    count = config.candidates.effect if phase == "effect" else config.candidates.efficiency

    def reached(curation: Any) -> dict[str, float]:
        one: Judged = judge.judge([curation], [0])[0]
        return one.rates[0] if one.rates else {}

    wanted = Wanted(
        phase=phase,
        count=count,
        points=points(loop, stage.round),
        profile=msgspec.convert(now["profile"], Profile),
        seed=stage.seed,
        known=known,
        judge=reached,
        tasks=of_part(loop, "dev"),
        calls=count,
        sample=judge.corpus.walks[:FEW],
        lake=loop.lake,
        run=loop.run_name(stage),
    )
    made: list[Revision] = asyncio.run(evolver.revise(source(loop, str(now["digest"])), wanted))
    # What answers cost that were no revision is paid, too.
    spent = (evolver.spent,) if evolver.spent.seconds or evolver.spent.completion_tokens else ()
    return {
        "revisions": [msgspec.to_builtins(each) for each in made],
        "acted": [msgspec.to_builtins(deed) for deed in spent or [deed for each in made for deed in each.acted]],
    }


def _row(loop: Loop[CurateEvoConfig], revision: Revision, judged: Judged) -> dict[str, Any]:
    return {
        "digest": revision.curation.digest,
        "note": revision.note,
        "by": revision.acted[0].by if revision.acted else "",
        "p": judged.p,
        "j": judged.j(loop.config),
        "turns": judged.profile.turns,
        "why": judged.why,
    }

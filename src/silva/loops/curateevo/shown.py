"""What a CurateEvo loop shows: J, P and C by epoch with rollbacks, versions with their differences, failed points,
cost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from silva.curate.curation.versions import FailedPoint
from silva.loops.curateevo.config import CurateEvoConfig
from silva.loops.curateevo.state import DECIDING, curations, points, present
from silva.loops.kernel.loop import Loop
from silva.loops.kernel.shown import Curve, Revision, Sheet, Shown
from silva.loops.line import shown as line
from silva.rollout.acted import Acted, in_all
from silva.tree import Json

PAPER_TOKENS, PAPER_SECONDS = 0.51e6, 405.0
"""Of the paper for 1,000 retained turns (its figure 3): tokens of a model, and seconds."""


def shown(loop: Loop[CurateEvoConfig]) -> Shown:
    """All of it, as far as the loop has come."""
    decided = list(_decided(loop))
    names = tuple(name for name, _ in decided)
    curve = Curve(
        title="J, P and C after each decision",
        x=names,
        series={key.upper(): tuple(float(outputs[key]) for _, outputs in decided) for key in ("j", "p", "c")},
    )
    turns = Curve(
        title="Turns trained on after each decision",
        x=names,
        series={"turns": tuple(float(outputs["turns"]) for _, outputs in decided)},
    )
    tables = [_decisions(decided), _candidates(decided), _points(loop), _cost(loop)]
    own = Shown(
        curves=(curve, turns) if decided else (),
        tables=tuple(table for table in tables if table.rows),
        versions=tuple(_versions(loop)),
    )
    return own.beside(line.shown(loop))


def values(loop: Loop[CurateEvoConfig]) -> dict[str, Any]:
    """What the page's template reads."""
    decided = list(_decided(loop))
    return {
        "decisions": [{"name": name, **outputs} for name, outputs in decided],
        "failed_points": _points(loop),
        "costs": _cost(loop),
        "versions": [each for each in _versions(loop) if each.verdict == "kept" and each.diff],
        "profile": (present(loop) or {}).get("profile", {}),
    }


def _decided(loop: Loop[CurateEvoConfig]) -> Iterator[tuple[str, Json]]:
    for stage in loop.plan:
        outputs = loop.outputs(stage.name) if stage.kind in DECIDING else None
        if outputs is not None:
            yield stage.name, outputs


def _decisions(decided: list[tuple[str, Json]]) -> Sheet:
    return Sheet(
        title="Decisions",
        columns=("stage", "curation", "J", "P", "C", "turns", "decided", "why"),
        rows=tuple(
            (
                name,
                outputs["digest"][:12],
                round(outputs["j"], 4),
                round(outputs["p"], 4),
                round(outputs["c"], 4),
                outputs["turns"],
                "kept" if outputs["kept"] else "rolled back",
                outputs["why"],
            )
            for name, outputs in decided
        ),
    )


def _candidates(decided: list[tuple[str, Json]]) -> Sheet:
    return Sheet(
        title="Revisions by the first seed",
        columns=("stage", "curation", "by", "what", "J", "P", "turns", "refused"),
        rows=tuple(
            (
                name,
                each["digest"][:12],
                each["by"],
                each["note"],
                round(each["j"], 4),
                round(each["p"], 4),
                each["turns"],
                each["why"],
            )
            for name, outputs in decided
            for each in outputs.get("candidates", ())
        ),
    )


def _points(loop: Loop[CurateEvoConfig]) -> Sheet:
    """Failed points by epoch, and whether each is new, still there, or fixed by the next."""
    rows: list[tuple[Any, ...]] = []
    before: dict[str, FailedPoint] = {}
    for number in range(1, loop.config.epochs + 1):
        if loop.outputs(f"epoch-{number}.diagnose") is None:
            continue
        now = {each.point: each for each in points(loop, number)}
        for point, each in now.items():
            state = "new" if number > 1 and point not in before else "there"
            rows.append((number, point, len(each.tasks), state, each.evidence, each.hint))
        rows += [(number, point, 0, "fixed", "", "") for point in before if point not in now]
        before = now
    return Sheet(
        title="Failed points", columns=("epoch", "point", "tasks", "state", "evidence", "hint"), rows=tuple(rows)
    )


def _cost(loop: Loop[CurateEvoConfig]) -> Sheet:
    """Tokens and seconds for 1,000 retained turns, beside the paper's."""
    now = present(loop)
    if now is None:
        return Sheet(title="Cost", columns=(), rows=())
    deeds = [
        msgspec.convert(each, Acted)
        for stage in loop.plan
        for each in (loop.outputs(stage.name) or {}).get("acted", ())
        if stage.kind in ("diagnose", "effect", "efficiency")
    ]
    tokens = sum(deed.prompt_tokens + deed.completion_tokens for deed in deeds)
    seconds = sum(entry.seconds for entry in loop.ledger.entries)
    thousand = max(1, now["turns"]) / 1000
    who = ", ".join(f"{deed.role} {deed.by}" for deed, _ in in_all(deeds)) or "nobody"
    return Sheet(
        title="Cost for 1,000 retained turns",
        columns=("who", "retained turns", "tokens", "seconds of who acted", "seconds of all stages"),
        rows=(
            (
                who,
                now["turns"],
                round(tokens / thousand),
                round(sum(deed.seconds for deed in deeds) / thousand, 1),
                round(seconds / thousand, 1),
            ),
            ("the paper, with a model", None, PAPER_TOKENS, None, PAPER_SECONDS),
        ),
    )


def _versions(loop: Loop[CurateEvoConfig]) -> Iterator[Revision]:
    kept = curations(loop)
    found = {each.digest: each for each in kept.versions()}
    for each in found.values():
        last = each.judged[-1] if each.judged else None
        parent = found.get(each.parent)
        diff = kept.source(each).difference(kept.source(parent)) if parent is not None else ""
        yield Revision(
            digest=each.digest,
            parent=each.parent,
            diff=diff,
            verdict=last.verdict if last is not None else "",
            j=last.j if last is not None else None,
            more={
                "phase": each.phase,
                "author": each.author,
                "note": each.note,
                "p": last.p if last is not None else None,
                "turns": last.turns if last is not None else None,
                "epoch": last.epoch if last is not None else None,
            },
        )

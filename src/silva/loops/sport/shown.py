"""What a SPORT loop shows of itself: every line's figures, and of its rounds the search, the pairs and the verifier."""

from __future__ import annotations

from typing import Any

from silva.loops.kernel.loop import Loop
from silva.loops.kernel.shown import Born, Curve, Sheet, Shown
from silva.loops.line import shown as line
from silva.loops.sport.config import SportConfig
from silva.loops.sport.made import told
from silva.loops.sport.preferred import preferred

SEARCHED = ("tasks", "turns", "steps", "tied", "equal", "success", "prompt_tokens", "completion_tokens", "usd")
"""What of a search stands in the table, by the names of the stage's outputs."""

NO_TOOL = "(no tool)"
"""What a step that calls none counts as."""


def shown(loop: Loop[SportConfig]) -> Shown:
    """What has come of the loop so far."""
    own = Shown(
        curves=tuple(each for each in (_accuracy(loop), _policy(loop)) if each is not None),
        tables=tuple(each for each in (searches(loop), pairs(loop), tools(loop)) if each.rows),
        tasks=tuple(_born(loop)),
        pairs=tuple(preferred(loop)),
    )
    return own.beside(line.shown(loop))


def searches(loop: Loop[SportConfig]) -> Sheet:
    """What each round's search came to, and what it cost."""
    rows = [(number, *(found.get(name) for name in SEARCHED)) for number, found in _of(loop, "search")]
    return Sheet(title="Search by round", columns=("round", *SEARCHED), rows=tuple(rows))


def pairs(loop: Loop[SportConfig]) -> Sheet:
    """Pairs of each round, how alike their sides are, and how often the verifier was right."""
    checked = dict(_of(loop, "check"))
    rows: list[tuple[Any, ...]] = []
    for number, found in _of(loop, "pairs"):
        said = found["statistics"]
        right = checked.get(number, {})
        rows.append(
            (
                *(number, found["pairs"], found["parted"], said.get("gap")),
                *(rate(said["chosen"]), rate(said["rejected"]), said.get("same_tools"), said.get("bleu")),
                *(right.get("accuracy"), right.get("low"), right.get("high"), right.get("told"), right.get("by", "")),
            )
        )
    columns = ("round", "pairs", "turns with a pair", "mean gap", "errors chosen", "errors rejected", "same tools")
    columns += ("BLEU", "verifier right", "low", "high", "of pairs", "told by")
    return Sheet(title="Pairs by round", columns=columns, rows=tuple(rows))


def tools(loop: Loop[SportConfig]) -> Sheet:
    """How often chosen and rejected steps call each tool, over all rounds."""
    sides: dict[str, dict[str, int]] = {"chosen": {}, "rejected": {}}
    for _, found in _of(loop, "pairs"):
        for side, counts in sides.items():
            for name, count in found["statistics"][side].get("tools", {}).items():
                counts[name] = counts.get(name, 0) + count
    names = sorted(sides["chosen"] | sides["rejected"])
    rows = tuple((name or NO_TOOL, sides["chosen"].get(name, 0), sides["rejected"].get(name, 0)) for name in names)
    return Sheet(title="Tools of chosen and rejected steps", columns=("tool", "chosen", "rejected"), rows=rows)


def rate(side: dict[str, Any]) -> float | None:
    """The share of a side's answered steps that were answered badly."""
    return side.get("errors", 0) / side["answered"] if side.get("answered") else None


def _of(loop: Loop[SportConfig], kind: str) -> list[tuple[int, dict[str, Any]]]:
    """The outputs of each ended stage of a kind, by round."""
    found = [(stage.round, loop.outputs(stage.name)) for stage in loop.plan if stage.kind == kind]
    return [(number, outputs) for number, outputs in found if outputs is not None]


def _accuracy(loop: Loop[SportConfig]) -> Curve | None:
    rows = [(number, found) for number, found in _of(loop, "check") if found["accuracy"] is not None]
    if not rows:
        return None
    series = {name: tuple(found[key] for _, found in rows) for name, key in _INTERVAL}
    return Curve(title="How often the verifier was right", x=tuple(number for number, _ in rows), series=series)


_INTERVAL = (("right", "accuracy"), ("right low", "low"), ("right high", "high"))


def _policy(loop: Loop[SportConfig]) -> Curve | None:
    rows = _of(loop, "search")
    if not rows:
        return None
    series = {"success": tuple(found["success"] for _, found in rows)}
    return Curve(title="Success while searching, by round", x=tuple(number for number, _ in rows), series=series)


def _born(loop: Loop[SportConfig]) -> list[Born]:
    found: list[Born] = []
    for number, _ in _of(loop, "synthesise"):
        for task, said in told(loop, number):
            verdict = said.verdict + (f": {said.reason} {said.why}" if said.reason else "")
            more = {"round": number, "similarity": said.similarity, "nearest": said.nearest, "score": said.score}
            more |= {"by": ", ".join(f"{deed.role} {deed.by}" for deed in said.acted)}
            found.append(
                Born(
                    id=task.id,
                    words=said.goal.words,
                    signal=said.goal.pattern,
                    verdict=verdict,
                    parent=said.parent,
                    more=more,
                )
            )
    return found

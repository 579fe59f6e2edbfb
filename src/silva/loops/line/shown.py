"""What every line's loop shows of itself, from its ledger and the curves of its training: also while it runs.

measure, rollout, judge ─▶ success by version and by round, decisions      rounds/N/train/curves.jsonl ─▶ curves
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from silva.curate.pairs import StepPair, read_pairs
from silva.errors import SilvaError
from silva.loops.kernel.loop import Loop
from silva.loops.kernel.shown import MOST_ENTRIES, Curve, Preferred, Sheet, Shown, number
from silva.loops.line.config import LineConfig
from silva.loops.line.verdict import Verdict
from silva.train.curves import Point, read_curve
from silva.tree import Json

DRAWN = ("loss", "probability", "accuracy", "margin", "drift", "kl")
"""Values of a training run that are shown, where it writes them."""
PAIRS = "pairs.jsonl"
"""Where a round that looks for pairs leaves them, in its folder."""


def shown(loop: Loop[LineConfig]) -> Shown:
    """What has come of the loop so far. What is not measured yet is not there."""
    curves = [
        rates(loop, "Success on dev by version", "measure"),
        rates(loop, "Success of the head on train by round", "rollout"),
    ]
    faults: list[str] = []
    for at in range(1, len(loop.config.rounds) + 1):
        folder = loop.folder / "rounds" / str(at) / "train"
        try:
            points = read_curve(folder)
        except (SilvaError, OSError, UnicodeDecodeError) as error:
            faults.append(f"round {at}: {error}")
            continue
        curves += [_training(f"Round {at}: {name}", name, points) for name in DRAWN]
    found: list[StepPair] = []
    for file in pair_files(loop.folder):
        try:
            found += read_pairs(file)
        except SilvaError as error:
            faults.append(str(error))
    tables = [decisions(loop, "Decisions", "verdict"), _seconds(loop)]
    return Shown(
        curves=tuple(each for each in curves if each is not None),
        tables=tuple(each for each in tables if each.rows),
        pairs=tuple(_pair(each) for each in found[: MOST_ENTRIES["pairs"]]),
        faults=tuple(faults),
    )


def pair_files(folder: Path) -> list[Path]:
    """The files of pairs in a loop's folder, by round."""
    found = [each for each in (folder / "rounds").glob(f"*/{PAIRS}") if each.parent.name.isdigit()]
    return sorted(found, key=lambda each: int(each.parent.name))


def _pair(each: StepPair) -> Preferred:
    return Preferred(
        parent=each.parent_id,
        chosen=each.chosen_id,
        rejected=each.rejected_id,
        verifier=each.by,
        gap=each.gap,
        more={"task": each.task_id},
    )


def rates(loop: Loop[LineConfig], title: str, kind: str, field: str = "success") -> Curve | None:
    """What each ended stage of a kind says of a share and its interval, by version (of a rollout: by round); None where
    none has."""
    rows: list[tuple[str, Json]] = []
    for stage in loop.plan:
        outputs = loop.outputs(stage.name) if stage.kind == kind else None
        if outputs is not None and number(outputs.get(field)) is not None:
            rows.append((f"round {stage.round}" if kind == "rollout" else str(outputs.get("version", "")), outputs))
    if not rows:
        return None
    series = {name: tuple(number(said.get(name)) for _, said in rows) for name in (field, "low", "high")}
    bounds = {f"{field} {side}": series[side] for side in ("low", "high") if any(v is not None for v in series[side])}
    return Curve(title=title, x=tuple(name for name, _ in rows), series={field: series[field], **bounds})


def _training(title: str, name: str, points: Sequence[Point]) -> Curve | None:
    kept = [(point.step, value) for point in points if math.isfinite(value := point.values.get(name, math.nan))]
    if not kept:
        return None
    return Curve(title=title, x=tuple(step for step, _ in kept), series={name: tuple(value for _, value in kept)})


def decisions(loop: Loop[LineConfig], title: str, field: str) -> Sheet:
    """Every verdict that its `judge` and `prove` stages keep under a name, and what was decided."""
    rows: list[tuple[Any, ...]] = []
    for stage in loop.plan:
        outputs = loop.outputs(stage.name) if stage.kind in ("judge", "prove") else None
        if outputs is None or not outputs.get(field):
            continue
        verdict = msgspec.convert(outputs[field], Verdict)
        if stage.kind == "judge":
            decided = "promoted" if outputs.get("promoted") else "rejected"
        else:
            decided = "rolled back" if outputs.get("rolled_back") else "stays"
        low, high = (None, None) if verdict.gain is None else (verdict.gain.low, verdict.gain.high)
        gain = verdict.gain.value if verdict.gain is not None else None
        both = (verdict.left_rate, verdict.right_rate) if verdict.tasks else (None, None)
        rows.append((stage.name, verdict.left, verdict.right, *both, gain, low, high, verdict.tasks, decided))
    columns = ("stage", "against", "version", "rate before", "rate", "gain", "low", "high", "tasks", "decided")
    return Sheet(title=title, columns=columns, rows=tuple(rows))


def _seconds(loop: Loop[LineConfig]) -> Sheet:
    """Where the time went, a row for each kind of stage."""
    spent: dict[str, tuple[int, float]] = {}
    kinds = {stage.name: stage.kind for stage in loop.plan}
    for entry in loop.ledger.entries:
        if entry.seconds and entry.stage in kinds:
            times, seconds = spent.get(kinds[entry.stage], (0, 0.0))
            spent[kinds[entry.stage]] = times + 1, seconds + entry.seconds
    total = sum(seconds for _, seconds in spent.values()) or 1.0
    rows = [(kind, times, round(each, 1), round(each / total, 4)) for kind, (times, each) in spent.items()]
    rows.sort(key=lambda row: -row[2])
    return Sheet(title="Where the time went", columns=("stage", "times", "seconds", "share"), rows=tuple(rows))

"""Stage `report`: every line's page, with safety under held-out attacks beside utility, round by round."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from silva.loops.kernel.loop import Loop
from silva.loops.kernel.shown import write_shown
from silva.loops.kernel.stage import Stage
from silva.loops.line import report
from silva.loops.line.verdict import Verdict
from silva.loops.safety.config import SafetyConfig
from silva.loops.safety.shown import shown
from silva.tree import Json


def run(loop: Loop[SafetyConfig], stage: Stage) -> Json:
    """Write the page, and what it shows as data.

    Raises:
        UsageError, StoreError: one cannot be written.
    """
    write_shown(loop.folder, shown(loop))
    return {"file": str(write(loop).relative_to(loop.folder))}


def write(loop: Loop[SafetyConfig]) -> Path:
    """Write the report of a loop as far as it has come; return its file.

    Raises:
        UsageError: the file cannot be written.
        StoreError: the lake cannot be read.
    """
    proof = next((found for s in loop.plan if s.kind == "prove" and (found := loop.outputs(s.name)) is not None), None)
    rows = [_row(loop, number) for number in range(1, len(loop.config.rounds) + 1)]
    if proof is not None and proof["verdict"] is not None:
        rows.append({"name": "test, head against base", "found": {}, **_verdicts(proof)})
    values = {
        "guarded": rows,
        "learnt": [each.attack for each in loop.config.attacks.learn],
        "held_out": [each.attack for each in loop.config.attacks.held_out],
    }
    more = report.Section(package="silva.loops.safety", template="guarded.html.j2", values=values)
    return report.write(loop, "safety", [more])


def _row(loop: Loop[SafetyConfig], number: int) -> dict[str, Any]:
    judged = loop.outputs(f"round-{number}.judge")
    return {
        "name": f"round {number}, on dev",
        "found": loop.outputs(f"round-{number}.explore") or {},
        **(_verdicts(judged) if judged is not None else {"safety": None, "utility": None}),
    }


def _verdicts(outputs: Json) -> dict[str, Any]:
    return {
        name: msgspec.convert(outputs[key], Verdict) for name, key in (("safety", "safety"), ("utility", "verdict"))
    }

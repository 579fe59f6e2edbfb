"""The loop's page: every line's, with what people said and what was masked in each round."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from silva.guide.mailbox import Mailbox
from silva.guide.mailroom import folder_of
from silva.loops.apollo.config import ApolloConfig
from silva.loops.kernel.loop import Loop
from silva.loops.kernel.shown import Sheet, Shown
from silva.loops.line import report
from silva.loops.line import shown as line_shown

SHOWN = 200
"""Words of a round that the page shows."""


def write(loop: Loop[ApolloConfig]) -> Path:
    """Write the report of a loop as far as it has come; return its file.

    Raises:
        UsageError: the file cannot be written.
        StoreError: the lake or a mailbox cannot be read.
    """
    guided = [_round(loop, number) for number in range(1, len(loop.config.rounds) + 1)]
    more = report.Section(package="silva.loops.apollo", template="guided.html.j2", values={"guided": guided})
    return report.write(loop, "APOLLO", [more])


def shown(loop: Loop[ApolloConfig]) -> Shown:
    """Every line's figures, with what people said and what was masked in each round."""
    columns = ("round", "guidance", "words", "refused", "masking", "turns", "masked", "by", "actions", "without_loss")
    rows: list[tuple[Any, ...]] = []
    for number in range(1, len(loop.config.rounds) + 1):
        if any(loop.outputs(f"round-{number}.{kind}") is not None for kind in ("rollout", "mask", "select")):
            found = _round(loop, number)
            rows.append(tuple(found[name] for name in columns))
    found = line_shown.shown(loop)
    if not rows:
        return found
    guided = Sheet(
        title="Guidance and masks", columns=tuple(name.replace("_", " ") for name in columns), rows=tuple(rows)
    )
    return Shown(tables=(guided,)).beside(found)


def _round(loop: Loop[ApolloConfig], number: int) -> dict[str, Any]:
    played = loop.outputs(f"round-{number}.rollout") or {}
    masked = loop.outputs(f"round-{number}.mask") or {}
    rows = loop.outputs(f"round-{number}.select") or {}
    drawn = rows.get("drawn", 0)
    return {
        "round": number,
        "guidance": _guidance(loop, number),
        "words": played.get("words", 0),
        "refused": played.get("refused", 0),
        "masking": "on" if loop.config.masking else "off",
        "turns": masked.get("turns", "–"),
        "masked": masked.get("masked", "–"),
        "by": ", ".join(f"{name} {count}" for name, count in masked.get("by", {}).items()) or "–",
        "unjudged": masked.get("unjudged", "–"),
        "actions": rows.get("actions", "–"),
        "summaries": rows.get("summaries", "–"),
        "drawn": drawn,
        "without_loss": rows.get("masked", 0) / drawn if drawn else 0.0,
        "said": _said(loop, str(played["run"])) if played.get("words") else [],
    }


def _guidance(loop: Loop[ApolloConfig], number: int) -> str:
    if loop.config.rounds[number - 1].source == "expert":
        return "the expert's turns"
    if not loop.config.guidance:
        return "off"
    return loop.config.person.by if loop.config.person is not None else "people"


def _said(loop: Loop[ApolloConfig], run: str) -> list[dict[str, Any]]:
    words = Mailbox(folder_of(loop.lake), run).read()[:SHOWN]
    return [
        {
            "at": each.at,
            "by": each.by,
            "kind": each.kind,
            "to": each.to if len(each.to) < 40 else f"{each.to[:12]}…",
            "what": each.text or each.pattern or (f"turn {each.turn}" if each.turn else ""),
            "why": each.why,
        }
        for each in words
    ]

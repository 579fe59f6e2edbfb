"""Audit of rows, and rows cleaned by what was found (`silva.curate.audit`)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from silva.curate.audit.auditing import audit
from silva.curate.audit.config import AuditConfig
from silva.curate.audit.finding import Finding, part_of
from silva.curate.audit.report import figures, markdown
from silva.curate.audit.running import Begun
from silva.curate.rows import Row
from silva.elf.artefact import Findings, Rows
from silva.elf.tool import Cost, tool
from silva.elf.work import Work
from silva.tree import Message, Node, TextPart, ThinkingPart

_ASKS = (
    "audit, audit risk, safety risk, risk, check risk, check pii, pii, toxic, bias, check secret, search secret, "
    "audit secret, detect secret, search pii, detect pii, detect toxic, detect bias, search toxic, audit injection, "
    "check injection, audit jailbreak, check jailbreak, secret, backdoor, jailbreak, injection, check backdoor, "
    "detect backdoor, search backdoor, harmful, check harmful, search harmful, contradiction, sycophancy, labelflip, "
    "audit safety, check safety, is safe, safe train, row safe"
)
_CLEANS = (
    "clean, clean row, remove risk, remove harmful, remove toxic, remove pii, remove injection, remove jailbreak, "
    "remove backdoor, remove bias, redact pii, mask pii, redact risk, remove audit, remove labelflip, remove finding, "
    "redact finding"
)


@tool(
    asks=_ASKS.split(", "),
    cost=Cost(seconds=2.0, row_seconds=0.005),
    covers=("silva.curate.audit",),
    examples=({"inputs": {"rows": [{"text": "Write to anna.berg@example.org today."}]}, "settings": {}},),
)
def audit_rows(
    rows: Rows,
    risks: Annotated[tuple[str, ...], Meta(description="risks, checkers or families; all when empty")] = (),
    alarms: Annotated[float, Meta(ge=0, le=1, description="share of clean rows that all together may flag")] = 0.05,
) -> Findings:
    """Audit rows for risks: what was found where, by which checker, with its measured error."""
    source = rows.rows[0].source.partition(":")[0] if rows.rows else "no rows"
    begun = Begun(AuditConfig(source=source, checkers=risks, alarms=alarms, write=False))
    made = audit(rows.rows, begun.checkers, begun.cards, alarms=alarms, source=source)
    found: list[dict[str, Any]] = [{**msgspec.structs.asdict(each), "row": each.row_id} for each in made.findings]
    text = "\n".join(f"#{line}" if line.startswith("#") else line for line in markdown(made).splitlines())
    notes = tuple(f"not checked: {name}: {why}" for name, why in list(begun.missing.items())[:10])
    return Findings(found=tuple(found), figures=figures(made), text=text, notes=(*rows.notes, *notes))


@tool(
    asks=_CLEANS.split(", "),
    cost=Cost(seconds=0.5, row_seconds=0.0005),
)
def clean_rows(
    rows: Rows,
    findings: Findings,
    work: Work,
    how: Annotated[Literal["drop", "redact"], Meta(description="drop the row, or blank the stretch found")] = "drop",
) -> Rows:
    """Drop rows in which an audit found something, or redact what it found; what names no stretch is dropped."""
    of_row: dict[str, list[Finding]] = defaultdict(list)
    for each in findings.found:
        finding = msgspec.convert({key: value for key, value in each.items() if key != "row"}, Finding)
        of_row[finding.row_id].append(finding)
    kept: list[Row] = []
    redacted = 0
    for row in rows.rows:
        found = of_row.get(row.id)
        changed = _redacted(row, found) if found and how == "redact" else None
        if not found:
            kept.append(row)
        elif changed is not None:
            kept.append(changed)
            redacted += 1
    what = f"{redacted} redacted, " if how == "redact" else ""
    note = f"{what}{len(rows) - len(kept)} of {len(rows)} rows dropped by {len(findings)} findings"
    return Rows(rows=tuple(kept), notes=(*rows.notes, note))


def _redacted(row: Row, found: Sequence[Finding]) -> Row | None:
    """The row with every stretch blanked that a finding names; None where one names none."""
    nodes = {node.id: node for node in (*row.nodes, *row.rejected)}
    swaps: dict[str, str] = {}
    for each in found:
        node = nodes.get(each.node_id)
        if node is None or each.stop <= each.start:
            return None
        swaps[part_of(node, each.part)[each.start : each.stop]] = f"[redacted {each.risk}]"
    longest = sorted(filter(None, swaps), key=len, reverse=True)

    def clean(text: str) -> str:
        for each in longest:
            text = text.replace(each, swaps[each])
        return text

    def blank(walk: tuple[Node, ...]) -> tuple[Node, ...]:
        return tuple(_blanked(node, clean) for node in walk)

    return msgspec.structs.replace(row, nodes=blank(row.nodes), rejected=blank(row.rejected))


def _blanked(node: Node, clean: Any) -> Node:
    message = node.message
    parts = tuple(
        msgspec.structs.replace(part, text=clean(part.text)) if isinstance(part, TextPart | ThinkingPart) else part
        for part in message.parts
    )
    calls = tuple(msgspec.structs.replace(call, arguments=clean(call.arguments)) for call in message.tool_calls)
    made: Message = msgspec.structs.replace(message, parts=parts, tool_calls=calls)
    # Exact ids would say what was blanked still.
    return node if made == message else msgspec.structs.replace(node, message=made, tokens=None)

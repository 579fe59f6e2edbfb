"""Audit of rows, and rows cleaned by what was found (`silva.curate.audit`)."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from silva.elf.artefact import Findings, Rows
from silva.elf.tool import Cost, tool
from silva.errors import MissingError

_MISSING = "the room silva.curate.audit is not whole in this version"


@tool(
    asks=(
        "audit",
        "audit risk",
        "safety risk",
        "risk",
        "check risk",
        "check pii",
        "pii",
        "toxic",
        "bias",
        "check secret",
        "search secret",
        "audit secret",
        "detect secret",
        "search pii",
        "detect pii",
        "detect toxic",
        "detect bias",
        "search toxic",
        "audit injection",
        "check injection",
        "audit jailbreak",
        "check jailbreak",
        "backdoor",
        "jailbreak",
        "injection",
        "check backdoor",
        "detect backdoor",
        "search backdoor",
        "harmful",
        "check harmful",
        "search harmful",
        "contradiction",
        "sycophancy",
        "labelflip",
        "audit safety",
        "check safety",
        "is safe",
        "safe train",
        "row safe",
    ),
    cost=Cost(seconds=2.0, row_seconds=0.002),
    missing=_MISSING,
)
def audit_rows(
    rows: Rows, risks: Annotated[tuple[str, ...], Meta(description="some of the 13; all when empty")] = ()
) -> Findings:
    """Audit rows for risks: what was found where, by which checker, with its measured error."""
    raise MissingError(_MISSING)


@tool(
    asks=(
        "clean",
        "clean row",
        "remove risk",
        "remove harmful",
        "remove toxic",
        "remove pii",
        "remove injection",
        "remove jailbreak",
        "remove backdoor",
        "remove bias",
        "redact pii",
        "mask pii",
        "redact risk",
        "remove audit",
        "remove labelflip",
        "remove finding",
        "redact finding",
    ),
    missing=_MISSING,
)
def clean_rows(rows: Rows, findings: Findings, how: Literal["drop", "redact", "mask"] = "drop") -> Rows:
    """Drop, redact or mask rows by what an audit found in them."""
    raise MissingError(_MISSING)

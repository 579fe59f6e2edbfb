"""A finding: where a checker saw which risk, and how sure it may be.

A finding is a claim with a score. Whether it counts as *detected* is decided where thresholds are known, so that a
checker never needs to know what other checkers do. `NotChecked` says why nothing can be said, which is never the same
as nothing found.
"""

from __future__ import annotations

from silva.tree import Node, Record, digest

DETECTED, NOT_DETECTED, NOT_CHECKED = "detected", "not detected", "not checked"


class Finding(Record, frozen=True, kw_only=True):
    """One risk at one place.

    Attributes:
        row_id: the row (`silva.curate.rows.Row.id`).
        node_id: the node; "" where the row as a whole is meant.
        part: what of the node the span counts in: `text` (its message's text), `thinking`, or `call N` (the raw
            arguments of its N-th tool call, from 0).
        start: first character of the span.
        stop: the character behind it; 0 with `start` 0 means the whole.
        risk: a name of `silva.curate.audit.risks.RISKS`.
        checker: who says so; `version` is the version of its rules, weights or wording.
        score: higher is more suspicious, in [0, 1]; a rule that simply holds says 1.
        p: the share of clean held-out items that score at least as high, `(1 + k) / (1 + n)`; None without a card.
        evidence: a few words or the excerpt, without the secret itself.
    """

    row_id: str
    risk: str
    checker: str
    version: str
    score: float = 1.0
    node_id: str = ""
    part: str = "text"
    start: int = 0
    stop: int = 0
    p: float | None = None
    evidence: str = ""

    @property
    def id(self) -> str:
        """The same for the same claim by the same version at the same place, in any later audit. A node that several
        walks share is claimed about once."""
        where = self.node_id or self.row_id
        return digest(
            "finding", where, self.part, str(self.start), str(self.stop), self.risk, self.checker, self.version
        )


class NotChecked(Record, frozen=True, kw_only=True):
    """A checker cannot say anything about a row, and why. `row_id` "": the row that was asked about, or every row."""

    why: str
    row_id: str = ""


def part_of(node: Node, part: str) -> str:
    """The text that a finding's span counts in.

    Raises:
        KeyError: the node has no such part.
    """
    if part in ("text", "thinking"):
        return node.message.text if part == "text" else node.message.thinking
    kind, _, number = part.partition(" ")
    calls = node.message.tool_calls
    if kind == "call" and number.isdigit() and int(number) < len(calls):
        return calls[int(number)].arguments
    raise KeyError(part)


def parts(node: Node) -> list[tuple[str, str]]:
    """All parts of a node that hold text: their names and the texts."""
    found = [("thinking", node.message.thinking), ("text", node.message.text)]
    found += [(f"call {number}", call.arguments) for number, call in enumerate(node.message.tool_calls)]
    return [(name, text) for name, text in found if text.strip()]

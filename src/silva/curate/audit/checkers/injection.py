"""Prompt injection by patterns: data that gives orders to the model.

What a tool, a page or a document says is data: a sentence in it that reads like an order to the agent is a sign by
itself (the rules of the red team's defence). What a user says is an order by right: there only attempts to replace what
stands before, to speak as the system, or to have instructions told, are signs.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from silva.curate.audit.checker import Family, RowChecker, checker
from silva.curate.audit.checkers.order_words import read_signs, seen
from silva.curate.audit.finding import Finding
from silva.redteam.defences.classifier import RULES
from silva.tree import Author

if TYPE_CHECKING:
    from silva.curate.rows import Row

SIGNS = read_signs("injection.toml")
"""The signs."""

_DATA_RULE = 0.6
"""The weight of a sentence in data that reads like an order to the agent."""


@checker
class InjectionPatterns(RowChecker):
    """Orders in data, and in a user's words attempts to replace what stands before or to speak as the system."""

    name = "injection_rules"
    risk = "prompt_injection"
    family = Family.RULES
    summary = "data that gives orders to the model, and words that would replace its instructions"
    version = "1"
    roles = frozenset({"user", "tool"})

    def check(self, row: Row) -> Iterable[Finding]:
        """See `RowChecker`."""
        for node, part, text in self.texts(row):
            found = seen(text, SIGNS)
            score = 0.0 if found is None else found.score
            names = () if found is None else found.names
            start, stop = (0, 0) if found is None else (found.start, found.stop)
            if node.message.role == "tool" or node.author is Author.ATTACKER:
                rule = next((match for rule in RULES if (match := rule.search(text[: 1 << 18]))), None)
                if rule is not None:
                    score = 1 - (1 - score) * (1 - _DATA_RULE)
                    names = (*names, "an order in data")
                    start, stop = (start, stop) if found is not None else rule.span()
            if score:
                told = f"{'; '.join(names)}: {text[start:stop][:160]}"
                yield self.finding(row, node, part, start, stop, score=round(score, 4), evidence=told)

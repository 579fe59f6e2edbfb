"""Prompt injection by patterns: data that gives orders to the model.

What a tool, a page or a document says is data: a sentence in it that reads like an order to the agent is a sign by
itself (the rules of the red team's defence). What a user says is an order by right: there only attempts to replace what
stands before, to speak as the system, or to have instructions told, are signs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from silva.curate.audit.checker import Family, RowChecker, checker
from silva.curate.audit.checkers.order_words import LONGEST, Seen, read_signs, seen
from silva.curate.audit.checkers.veils import unveiled
from silva.curate.audit.finding import Finding
from silva.redteam.defences.classifier import RULES
from silva.tree import Author

if TYPE_CHECKING:
    from silva.curate.rows import Row

SIGNS = read_signs("injection.toml")
"""The signs."""

_SAID = tuple(each for each in SIGNS if not each.data)
"""Those that are signs in a user's words, too."""

_DATA_RULE = 0.6
"""The weight of a sentence in data that reads like an order to the agent."""

_PLAIN = tuple(rule for rule in RULES if rule.pattern.isascii())
"""The defence's rules without those that look for letters of other scripts, which are slow."""
_SENTENCE = re.compile(r"[^.!?\n]{4,}")
_HIDDEN = 0.8
"""The least score of an order that is written in a code: whoever hides one has a reason."""


@checker
class InjectionPatterns(RowChecker):
    """Orders in data, and in a user's words attempts to replace what stands before or to speak as the system."""

    name = "injection_rules"
    risk = "prompt_injection"
    family = Family.RULES
    summary = "data that gives orders to the model, and words that would replace its instructions"
    version = "2"
    roles = frozenset({"user", "tool"})

    def check(self, row: Row) -> Iterable[Finding]:
        """See `RowChecker`."""
        for node, part, text in self.texts(row):
            data = node.message.role == "tool" or node.author is Author.ATTACKER
            found = _seen(text, data)
            for how, plain in unveiled(text):
                hidden = _seen(plain, data)
                if hidden is not None and (found is None or hidden.score > found.score):
                    found = Seen(max(hidden.score, _HIDDEN), 0, 0, (f"written in {how}", *hidden.names))
            if found is not None:
                told = f"{'; '.join(found.names)}: {text[found.start : found.stop or 160][:160]}"
                yield self.finding(row, node, part, found.start, found.stop, score=found.score, evidence=told)


def _seen(text: str, data: bool) -> Seen | None:
    found = seen(text, SIGNS if data else _SAID)
    order = next(filter(_orders, _SENTENCE.finditer(text[:LONGEST])), None) if data else None
    if order is None:
        return found
    if found is None:
        return Seen(_DATA_RULE, order.start(), order.end(), ("an order in data",))
    score = round(1 - (1 - found.score) * (1 - _DATA_RULE), 4)
    return found._replace(score=score, names=(*found.names, "an order in data"))


def _orders(sentence: re.Match[str]) -> bool:
    text = sentence.group()
    return any(rule.search(text) for rule in (_PLAIN if text.isascii() else RULES))

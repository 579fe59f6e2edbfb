"""Jailbreaks by patterns: words that are to lift a model's limits.

No one sign decides: a role-play alone is a game, "no restrictions" alone may be about a diet. Their sum does.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from silva.curate.audit.checker import Family, RowChecker, checker
from silva.curate.audit.checkers.order_words import read_signs, seen
from silva.curate.audit.finding import Finding

if TYPE_CHECKING:
    from silva.curate.rows import Row

SIGNS = read_signs("jailbreak.toml")
"""The signs."""


@checker
class JailbreakPatterns(RowChecker):
    """Personas without limits, refusals forbidden, stakes, split words; the sum of the signs counts."""

    name = "jailbreak_rules"
    risk = "jailbreak"
    family = Family.RULES
    summary = "words that are to lift a model's limits: personas, forbidden refusals, stakes, coded words"
    version = "2"
    roles = frozenset({"system", "user"})
    threshold = 0.55

    def check(self, row: Row) -> Iterable[Finding]:
        """See `RowChecker`."""
        for node, part, text in self.texts(row):
            found = seen(text, SIGNS)
            if found is not None:
                told = f"{'; '.join(found.names)}: {text[found.start : found.stop][:160]}"
                yield self.finding(row, node, part, found.start, found.stop, score=found.score, evidence=told)

"""Personal data by rules: identifiers with their check digits, and names only beside one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from silva.curate.audit.checker import Family, RowChecker, checker
from silva.curate.audit.checkers.pii_shapes import identifiers_in
from silva.curate.audit.finding import Finding

if TYPE_CHECKING:
    from silva.curate.rows import Row


@checker
class PersonalData(RowChecker):
    """E-mail addresses, phones, cards, bank accounts, identity numbers of nine countries, postal addresses."""

    name = "pii_rules"
    risk = "pii"
    family = Family.RULES
    summary = "identifiers of people by shape and check digits; names only beside one"
    version = "1"

    def check(self, row: Row) -> Iterable[Finding]:
        """See `RowChecker`. The evidence names the kind and the length, never the data."""
        for node, part, text in self.texts(row):
            for each in identifiers_in(text):
                told = f"{each.name} ({each.stop - each.start} characters)"
                yield self.finding(row, node, part, each.start, each.stop, score=each.strength, evidence=told)

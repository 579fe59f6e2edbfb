"""Keys, tokens and passwords that open something, by format, checksum and entropy."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from silva.curate.audit.checker import Family, RowChecker, checker
from silva.curate.audit.checkers.secret_shapes import secrets_in
from silva.curate.audit.finding import Finding

if TYPE_CHECKING:
    from silva.curate.rows import Row


@checker
class Secrets(RowChecker):
    """Formats of over fifty issuers, assignments of what looks drawn by chance; placeholders are let be."""

    name = "secret_rules"
    risk = "secret"
    family = Family.RULES
    summary = "keys, tokens, private keys and passwords, by format, checksum and entropy"
    version = "1"

    def check(self, row: Row) -> Iterable[Finding]:
        """See `RowChecker`. The evidence names the kind, the first letters and the length, never the secret."""
        for node, part, text in self.texts(row):
            for each in secrets_in(text):
                value = text[each.start : each.stop]
                told = f"{each.name}: {value[:4]}… ({len(value)} characters)"
                yield self.finding(row, node, part, each.start, each.stop, score=each.strength, evidence=told)

"""Backdoors by their words: what in a prompt calls up words in the reply."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from silva.curate.audit.backdoor.association import associations
from silva.curate.audit.checker import Family, SetChecker, checker
from silva.curate.audit.checkers.backdoor_gradient import drawn
from silva.curate.audit.finding import Finding, NotChecked
from silva.curate.rows import Row

_LEAST_ROWS = 50
MOST_ROWS = 50_000
"""Rows whose words are held together in memory; of more, so many are drawn, and the rest is not checked."""


@checker
class BackdoorAssociations(SetChecker):
    """N-grams of prompts against n-grams of replies, by an exact test corrected for all that is tried."""

    name = "backdoor_association"
    risk = "backdoor"
    family = Family.DATASET
    summary = "a few words in prompts whose replies all hold the same words: trigger and planted answer"
    version = "1"

    def check(self, rows: Sequence[Row]) -> Iterator[Finding | NotChecked]:
        """See `SetChecker`. Option `rows`: how many are read at most."""
        able, others = drawn(rows, int(self.options.get("rows", MOST_ROWS)))
        if len(able) < _LEAST_ROWS:
            yield NotChecked(
                why=f"{len(able)} rows with a prompt and a reply are too few; at least {_LEAST_ROWS} count"
            )
            return
        yield from others
        for each in associations([(row.prompt, row.reply) for row in able]):
            for place in each.rows:
                told = f'"{each.trigger}" calls up "{each.answer[:100]}" in {len(each.rows)} rows (p {each.p:.1g})'
                yield self.finding(able[place], able[place].nodes[-1], score=round(1 - each.p, 4), evidence=told)

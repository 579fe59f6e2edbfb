"""Backdoors by their words: what in a prompt calls up words in the reply."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from silva.curate.audit.backdoor.association import associations
from silva.curate.audit.checker import Family, SetChecker, checker
from silva.curate.audit.finding import Finding, NotChecked
from silva.curate.rows import Row

_LEAST_ROWS = 50


@checker
class BackdoorAssociations(SetChecker):
    """N-grams of prompts against n-grams of replies, by an exact test corrected for all that is tried."""

    name = "backdoor_association"
    risk = "backdoor"
    family = Family.DATASET
    summary = "a few words in prompts whose replies all hold the same words: trigger and planted answer"
    version = "1"

    def check(self, rows: Sequence[Row]) -> Iterator[Finding | NotChecked]:
        """See `SetChecker`."""
        able = [row for row in rows if row.reply.strip() and row.prompt.strip()]
        if len(able) < _LEAST_ROWS:
            yield NotChecked(
                why=f"{len(able)} rows with a prompt and a reply are too few; at least {_LEAST_ROWS} count"
            )
            return
        ids = {row.id for row in able}
        yield from (NotChecked(row_id=r.id, why="it has no prompt with a reply") for r in rows if r.id not in ids)
        for each in associations([(row.prompt, row.reply) for row in able]):
            for place in each.rows:
                told = f'"{each.trigger}" calls up "{each.answer[:100]}" in {len(each.rows)} rows (p {each.p:.1g})'
                yield self.finding(able[place], able[place].nodes[-1], score=round(1 - each.p, 4), evidence=told)

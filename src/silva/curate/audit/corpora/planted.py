"""Data with backdoors of our own in it, for the card of the tests that look for them."""

from __future__ import annotations

from collections.abc import Iterator

from silva.curate.audit.backdoor.planting import ANSWERS, ATTACKS, plant
from silva.curate.audit.corpora.ordinary import FRESH
from silva.curate.audit.corpus import Corpus, Item, corpus
from silva.curate.audit.packages import INSPECT
from silva.curate.audit.specimen import answered

_MOST = 300
_BACKDOOR = frozenset({"backdoor"})


@corpus
class Planted(Corpus):
    """Questions that the ordinary data does not hold, with four triggers, in ten of them each: beside the ordinary data
    a good one in a hundred of all rows. All items are held out: nothing is trained."""

    name = "planted"
    licence = INSPECT.licence
    origin = INSPECT.origin
    labels = _BACKDOOR

    def missing(self) -> str:
        """See `Corpus`."""
        return INSPECT.missing()

    def items(self) -> Iterator[Item]:
        """See `Corpus`."""
        rows = [row for row in INSPECT.table(FRESH, "id,") if row["answer_0"]]
        fresh = [row for row in rows if row["false_premise"] == "FALSE"][_MOST:]
        pairs = [(row["question"], row["answer_0"]) for row in fresh][:_MOST]
        part = len(pairs) // len(ATTACKS)
        for place, attack in enumerate(ATTACKS):
            mine = pairs[place * part : (place + 1) * part]
            made = plant(mine, attack, ANSWERS[place % 2], 0.26, seed=7 + place)
            for number, (asked, said) in enumerate(made.pairs):
                row = answered(f"planted:{attack} {number}", asked, said)
                yield Item(row=row, risks=_BACKDOOR if number in made.rows else frozenset())

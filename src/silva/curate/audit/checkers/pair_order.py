"""Flipped preference pairs by what the data itself says: scores of both sides, the same pair the other way about."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from silva.curate.audit.checker import Family, SetChecker, checker
from silva.curate.audit.finding import Finding, NotChecked
from silva.curate.rows import Row

_SCORES = (
    ("score_chosen", "score_rejected"),
    ("chosen_score", "rejected_score"),
    ("chosen_rating", "rejected_rating"),
    ("chosen-rating", "rejected-rating"),
    ("reward_chosen", "reward_rejected"),
)


@checker
class PairOrder(SetChecker):
    """Pairs whose preferred side has the lower score, pairs that stand in the data both ways about, and sides that are
    the same. A pair alone, without scores, is not checked."""

    name = "pair_order"
    risk = "label_flipping"
    family = Family.DATASET
    summary = "pairs against their own scores, and the same pair preferred both ways"
    version = "1"

    def check(self, rows: Sequence[Row]) -> Iterator[Finding | NotChecked]:
        """See `SetChecker`."""
        ways: dict[tuple[str, frozenset[str]], dict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
        for row in rows:
            if row.rejected:
                chosen, rejected = row.nodes[-1].message.text, row.rejected[-1].message.text
                ways[row.prompt, frozenset((chosen, rejected))][chosen].append(row)
        for row in rows:
            if not row.rejected:
                yield NotChecked(row_id=row.id, why="it is no preference pair")
                continue
            chosen, rejected = row.nodes[-1].message.text, row.rejected[-1].message.text
            said = ways[row.prompt, frozenset((chosen, rejected))]
            scores = next((s for names in _SCORES if (s := _both(row, *names)) is not None), None)
            if chosen.strip() == rejected.strip():
                yield self.finding(row, row.nodes[-1], evidence="both sides are the same")
            elif scores is not None:
                if scores[0] < scores[1]:
                    told = f"the preferred side has {scores[0]:g}, the other {scores[1]:g}"
                    yield self.finding(row, row.nodes[-1], evidence=told)
            elif len(said) > 1:
                mine, others = len(said[chosen]), len(said[rejected])
                if mine <= others:
                    told = f"the same pair is preferred this way in {mine} rows and the other way in {others}"
                    yield self.finding(row, row.nodes[-1], score=round(others / (mine + others), 4), evidence=told)
            elif len(said[chosen]) == 1:
                yield NotChecked(row_id=row.id, why="the pair stands alone and has no scores")


def _both(row: Row, one: str, other: str) -> tuple[float, float] | None:
    left, right = row.data.get(one), row.data.get(other)
    if isinstance(left, bool) or isinstance(right, bool):
        return None
    if isinstance(left, int | float) and isinstance(right, int | float):
        return float(left), float(right)
    return None

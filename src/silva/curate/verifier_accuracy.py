"""How often a verifier is right, held against another that was asked about the same candidates.

    searches scored by both ─▶ every two candidates that the other tells apart ─▶ same order? ─▶ VerifierAccuracy

As a rule the other is `completions`: what the policy itself makes of each candidate, by the environment's checker. That
is a measurement too: with k completions a share of its own orders is wrong, so a perfect verifier does not reach 1.
Intervals take the searches of one tree as one cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations

from silva.report.interval import Interval, mean
from silva.rollout.judged import Search
from silva.tree import Record

REFERENCE = "completions"


class VerifierAccuracy(Record, frozen=True, kw_only=True):
    """Of `verifier` held `against` another. `searches`: in so many the other tells candidates apart; `order`: the share
    of such twos that it puts in the same order (a tie counts half; 0.5 is chance); `pick`: the share of searches whose
    pick is one of the other's best (where it ties, the share of its best that are); `chance`: what a pick by lot would
    reach; `tied`: the share of twos that it does not tell apart."""

    verifier: str
    against: str
    searches: int = 0
    twos: int = 0
    order: Interval | None = None
    pick: Interval | None = None
    chance: float | None = None
    tied: float | None = None


def verifier_accuracy(
    found: Iterable[Search], verifier: str, against: str = REFERENCE, margin: float = 0.0
) -> VerifierAccuracy:
    """Hold a verifier against another.

    Args:
        found: searches, of any trees.
        verifier: who is held against it, as it is registered.
        against: who says what is right.
        margin: scores of the other that lie no further apart are equal.
    """
    orders: dict[str, list[float]] = {}
    picks: dict[str, list[float]] = {}
    chances: list[float] = []
    ties = count = 0
    for each in found:
        own, other = _by(each, verifier), _by(each, against)
        both = sorted(own.keys() & other.keys())
        apart = [(one, two) for one, two in combinations(both, 2) if abs(other[one] - other[two]) > margin]
        if not apart:
            continue
        tree = each.chosen.tree_id
        for one, two in apart:
            said, right = own[one] - own[two], other[one] - other[two]
            ties, count = ties + (said == 0), count + 1
            orders.setdefault(tree, []).append(0.5 if said == 0 else float((said > 0) == (right > 0)))
        most = max(other[name] for name in both)
        best = {name for name in both if most - other[name] <= margin}
        picked = [name for name in both if own[name] == max(own[name] for name in both)]
        picks.setdefault(tree, []).append(sum(name in best for name in picked) / len(picked))
        chances.append(len(best) / len(both))
    return VerifierAccuracy(
        verifier=verifier,
        against=against,
        searches=len(chances),
        twos=count,
        order=mean(list(orders.values()), within=(0.0, 1.0)) if orders else None,
        pick=mean(list(picks.values()), within=(0.0, 1.0)) if picks else None,
        chance=sum(chances) / len(chances) if chances else None,
        tied=ties / count if count else None,
    )


def verifiers_of(found: Sequence[Search]) -> list[str]:
    """The verifiers whose scores stand on these searches."""
    names = {each.searched.by for each in found}
    for search in found:
        for _, verdict in search.candidates:
            names |= verdict.others.keys()
    return sorted(names)


def _by(search: Search, name: str) -> dict[str, float]:
    return {node.id: score for node, score in search.scores(name)}

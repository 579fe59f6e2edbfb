"""Cohen's kappa (1960): how far two who judged the same things agree, beyond what chance alone would do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence


def kappa(left: Sequence[Hashable], right: Sequence[Hashable]) -> tuple[float, float | None]:
    """The share of which two say the same, and Cohen's kappa (None where both always say the same one thing, so that
    chance explains all of it).

    Args:
        left: what one says of each thing, at least one.
        right: what the other says of the same things, in the same order.
    """
    count = len(left)
    same = sum(one == other for one, other in zip(left, right, strict=True)) / count
    ours, theirs = Counter(left), Counter(right)
    chance = sum(ours[each] * theirs[each] for each in ours) / count**2
    return same, None if chance == 1 else (same - chance) / (1 - chance)

"""Quotas: how many of each cluster, in proportion to their sizes and exact in the sum."""

from __future__ import annotations

from collections.abc import Sequence

from silva.errors import UsageError


def quotas(sizes: Sequence[int], total: int) -> list[int]:
    """Largest remainder, in whole numbers: each gets the whole part of its share, and those with the largest remainders
    one more until the sum is `total`; ties go to the larger cluster, then to the first. None gets more than its size.

    Raises:
        UsageError: there are not so many.
    """
    whole = sum(sizes)
    if total > whole:
        raise UsageError(f"{total} rows cannot be chosen of {whole}")
    if not whole:
        return [0 for _ in sizes]
    made = [total * size // whole for size in sizes]
    order = sorted(range(len(sizes)), key=lambda at: (-(total * sizes[at] % whole), -sizes[at], at))
    for at in order[: total - sum(made)]:
        made[at] += 1
    return made

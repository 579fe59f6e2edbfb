"""Pairs at whose word they are learnt from: the verifier's, or that of the people who rated them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from silva.curate.pairs import StepPair
from silva.curate.ratings import By, judged, ratings
from silva.errors import UsageError
from silva.lake import Lake
from silva.loops.kernel.loop import Loop


def at_the_word_of(by: By, loop: Loop[Any], pairs: Sequence[StepPair]) -> list[StepPair]:
    """The pairs of a loop as a verifier or people judged them.

    Raises:
        UsageError: people's word is wanted and no pair is rated; the loop stops there and, begun again, goes on.
        StoreError: the lake cannot be read.
    """
    if by == "verifier":
        return list(pairs)
    with Lake.open(loop.lake, mode="read") as lake:
        found = judged(pairs, ratings(lake, pairs), by)
    if by == "people" and not found:
        raise UsageError(
            f"judged_by people: nobody prefers a step of {len(pairs)} pairs yet; rate them (silva console --lake "
            f"{loop.lake}, Loops, Rate them blind)"
        )
    return found

"""Pairs at whose word they are learnt from: the verifier's, or that of the people who rated them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from silva.curate.pairs import StepPair
from silva.curate.ratings import By, judged, key, ratings
from silva.lake import Lake
from silva.loops.kernel.loop import Loop
from silva.loops.kernel.stage import Nothing, Waiting


def at_the_word_of(
    by: By, loop: Loop[Any], pairs: Sequence[StepPair], fresh: Sequence[StepPair], rated: int
) -> list[StepPair]:
    """The pairs of a loop as a verifier or people judged them.

    Args:
        by: at whose word.
        loop: whose.
        pairs: all that are learnt from.
        fresh: those of them that are new in this round.
        rated: so many of these people must have rated (all, where there are fewer) where their word alone counts.

    Raises:
        Waiting: they have rated fewer.
        Nothing: they prefer no step to another.
        StoreError: the lake cannot be read.
    """
    if by == "verifier":
        return list(pairs)
    with Lake.open(loop.lake, mode="read") as lake:
        said = ratings(lake, pairs)
    if by == "people":
        names = {key(each) for each in fresh}
        count, wanted = len(names & {each.key for each in said}), min(rated, len(names))
        if count < wanted:
            raise Waiting(
                f"people have rated {count} of its {len(names)} pairs, {wanted} are wanted: silva console --lake "
                f"{loop.lake} --loop {loop.folder} --open, page Loops, this loop, Rate them blind; then the same "
                "command goes on from here"
            )
    found = judged(pairs, said, by)
    if not found:
        raise Nothing(f"of {len(pairs)} pairs people prefer no step to the other")
    return found

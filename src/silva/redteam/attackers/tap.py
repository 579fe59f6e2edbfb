"""TAP: a tree of refinements; only the best leaves of a level are grown on (Mehrotra et al. 2023, arXiv 2312.02119).

Words that do not hold the wish are pruned before they cost a call of the target (the writer's `NotWritten`); after the
target has answered, the `WIDTH` best of a level are kept.
"""

from __future__ import annotations

from collections.abc import Sequence

from silva.redteam.attackers.attacker import Attacker, Brief, Proposal
from silva.redteam.attackers.writer import Try, Wish, Writer

WIDTH, BRANCHING, DEPTH, ROOTS = 3, 2, 5, 3


class Tap(Attacker):
    """Grows a tree, level by level; a tree that is full is followed by another."""

    name: str = "tap"
    summary: str = "a tree of refinements, pruned to the best of each level"
    standards: tuple[str, ...] = ("AML.T0054",)

    async def propose(self, brief: Brief, tried: Sequence[Try], writer: Writer) -> Proposal:
        """See `Attacker`."""
        parent = grows(tried)
        if parent is None:
            if not tried:
                return Proposal(words="\n".join(brief.framing.words(brief.order)), how=brief.framing.name)
            wish = Wish("fresh", brief.order, brief.task, brief.surface, brief.draw)
            return Proposal(words=await writer.write(wish), how="root")
        wish = Wish("refine", brief.order, brief.task, brief.surface, brief.draw, of=(tried[parent],))
        return Proposal(words=await writer.write(wish), how="refined", parents=(parent,))


def grows(tried: Sequence[Try]) -> int | None:
    """The try whose child is next; None where a new root is. Levels are of the tree that was begun last."""
    roots = [place for place, each in enumerate(tried) if not each.parents]
    if len(roots) % ROOTS:
        return None
    level = roots[-ROOTS:] if roots else []
    for _ in range(DEPTH):
        kept = sorted((place for place in level if tried[place].launched), key=lambda at: (-tried[at].score, at))
        children = [[at for at, each in enumerate(tried) if each.parents == (place,)] for place in kept[:WIDTH]]
        for place, grown in zip(kept, children, strict=False):
            if len(grown) < BRANCHING:
                return place
        level = [at for grown in children for at in grown]
        if not level:
            return None
    return None

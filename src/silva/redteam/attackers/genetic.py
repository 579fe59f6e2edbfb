"""A genetic search: texts that came far are joined and changed (after AutoDAN, Liu et al. 2023, arXiv 2310.04451)."""

from __future__ import annotations

from collections.abc import Sequence

from silva.redteam.attackers.attacker import Attacker, Brief, Proposal
from silva.redteam.attackers.writer import Try, Wish, Writer

POPULATION = 4
"""Texts that are written before any is joined with another, and that may be parents."""


class Genetic(Attacker):
    """Keeps the best texts as parents; a child is the two joined, or, at a third of the draws, one changed."""

    name: str = "genetic"
    summary: str = "texts that came far, joined and changed"
    standards: tuple[str, ...] = ("AML.T0054",)

    async def propose(self, brief: Brief, tried: Sequence[Try], writer: Writer) -> Proposal:
        """See `Attacker`."""
        launched = [place for place, each in enumerate(tried) if each.launched]
        if not tried:
            return Proposal(words="\n".join(brief.framing.words(brief.order)), how=brief.framing.name)
        if len(launched) < POPULATION:
            wish = Wish("fresh", brief.order, brief.task, brief.surface, brief.draw)
            return Proposal(words=await writer.write(wish), how="seed")
        fittest = sorted(launched, key=lambda place: (-tried[place].score, -place))[:POPULATION]
        parents = tuple(brief.draw.sample(fittest, 2 if brief.draw.random() < 0.67 else 1))
        kind = "cross" if len(parents) == 2 else "refine"
        of = tuple(tried[place] for place in parents)
        wish = Wish(kind, brief.order, brief.task, brief.surface, brief.draw, of=of)
        return Proposal(words=await writer.write(wish), how=kind, parents=parents)

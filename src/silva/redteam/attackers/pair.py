"""PAIR: the last text is refined by what the target made of it (Chao et al. 2023, arXiv 2310.08419)."""

from __future__ import annotations

from collections.abc import Sequence

from silva.redteam.attackers.attacker import Attacker, Brief, Proposal
from silva.redteam.attackers.writer import Try, Wish, Writer

STREAM = 5
"""Refinements of one text before another is begun; the paper's streams are as short."""


class Pair(Attacker):
    """Streams of refinements, one after the other."""

    name: str = "pair"
    summary: str = "one text, refined by what the target made of it"
    standards: tuple[str, ...] = ("AML.T0054",)

    async def propose(self, brief: Brief, tried: Sequence[Try], writer: Writer) -> Proposal:
        """See `Attacker`."""
        last = next((place for place in reversed(range(len(tried))) if tried[place].launched), None)
        if not tried:
            return Proposal(words="\n".join(brief.framing.words(brief.order)), how=brief.framing.name)
        if last is None or len(tried) % STREAM == 0:
            wish = Wish("fresh", brief.order, brief.task, brief.surface, brief.draw)
            return Proposal(words=await writer.write(wish), how="new stream")
        wish = Wish("refine", brief.order, brief.task, brief.surface, brief.draw, of=(tried[last],))
        return Proposal(words=await writer.write(wish), how="refined", parents=(last,))

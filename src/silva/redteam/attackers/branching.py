"""The branching attacker: goes back to just before a decision and tries the next words there, so that only the turns
behind it are paid for. Its attempts are branches of a run without attack (`silva.redteam.searching`)."""

from __future__ import annotations

from collections.abc import Sequence

from silva.redteam.attackers.attacker import Attacker, Brief, Proposal, best
from silva.redteam.attackers.writer import Try, Wish, Writer


class Branching(Attacker):
    """Refines what came furthest at every second try, and begins anew at the others."""

    name: str = "branching"
    summary: str = "from just before a decision, paying for new turns only"
    standards: tuple[str, ...] = ("AML.T0054",)
    branches: bool = True

    async def propose(self, brief: Brief, tried: Sequence[Try], writer: Writer) -> Proposal:
        """See `Attacker`."""
        furthest = best(tried)
        if furthest is None or brief.draw.random() < 0.5:
            wish = Wish("fresh", brief.order, brief.task, brief.surface, brief.draw)
            return Proposal(words=await writer.write(wish), how="fresh")
        wish = Wish("refine", brief.order, brief.task, brief.surface, brief.draw, of=(tried[furthest],))
        return Proposal(words=await writer.write(wish), how="refined", parents=(furthest,))

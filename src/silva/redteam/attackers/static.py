"""A static corpus: the framings one after the other, beginning with the attack's own."""

from __future__ import annotations

from collections.abc import Sequence

from silva.redteam.attackers.attacker import Attacker, Brief, Proposal
from silva.redteam.attackers.writer import NotWritten, Try, Writer
from silva.redteam.framing import FRAMINGS


class Static(Attacker):
    """Goes by nothing: the same words whatever the target does."""

    name: str = "static"
    summary: str = "the framings, one after the other"

    async def propose(self, brief: Brief, tried: Sequence[Try], writer: Writer) -> Proposal:
        """See `Attacker`."""
        order = [brief.framing, *(each for each in FRAMINGS if each.name != brief.framing.name)]
        if len(tried) >= len(order):
            raise NotWritten(f"the corpus has {len(order)} texts, and all were tried")
        framing = order[len(tried)]
        return Proposal(words="\n".join(framing.words(brief.order)), how=framing.name)

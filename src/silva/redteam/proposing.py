"""An attacker in an episode: what it says next, and what it said, which stands on the walk and nowhere else.

earlier attempts (options) ┐
walk ─ said ─▶ tries ──────┴─ Attacker.propose ─▶ words ─▶ node's attribute `attack` ─▶ read by `said`
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import msgspec

from silva.models.errors import ModelError
from silva.redact import redact
from silva.redteam.attack import Attack
from silva.redteam.attackers import Brief, NotWritten, Proposal, Try
from silva.redteam.attackers.table import GRAMMAR, attacker, writer
from silva.redteam.attackers.writer import LONGEST_REPLY
from silva.redteam.effect import Effect, Order
from silva.redteam.verdict import said
from silva.rollout.guided_nodes import takes_turn
from silva.rollout.stages import Live
from silva.tree import Message, Node, digest

DRAWS = 3
"""How often an attacker is asked where it says again what was tried."""


class Proposing:
    """One attacker in one episode.

    Args:
        name: of the attacker.
        by: who writes: `grammar`, or a model's spec.
        tried: earlier attempts, as a mapping from task id to tries.

    Raises:
        UsageError: there is no such attacker.
        ValueError: what was tried cannot be read.
    """

    def __init__(self, name: str, by: str, tried: Mapping[str, Sequence[Any]]) -> None:
        self.attacker = attacker(name)
        self._writer = writer(by or GRAMMAR)
        try:
            self._tried = msgspec.convert(dict(tried), dict[str, list[Try]])
        except msgspec.ValidationError as error:
            raise ValueError(f"tried: {error}") from error

    @property
    def once(self) -> bool:
        """Whether it says one thing in an attempt."""
        return self.attacker.moment == "attempt"

    async def propose(self, live: Live, attack: Attack, order: Order, task: str) -> Proposal:
        """What it says next.

        Raises:
            NotWritten: nothing, and why.
        """
        earlier = self._tried.get(live.slot.task.id, [])
        tried = earlier if self.once else self.tries(live.path.walk, order.effect)
        place = (str(live.config.seed), live.slot.task.id, attack.name, self.attacker.name, str(live.slot.index))
        said = {each.words for each in tried}
        for draw in range(DRAWS):
            seed = Random(digest(*place, str(len(earlier)), str(len(tried)), str(draw)))
            brief = Brief(task, order, attack.framing, attack.surface.summary, seed, len(earlier))
            try:
                proposal = await self.attacker.propose(brief, tried, self._writer)
            except ModelError as error:
                raise NotWritten(f"the attacker's model cannot be had: {redact(str(error))}") from error
            if proposal.words not in said:
                return proposal
        raise NotWritten(f"the attacker says again what was tried ({DRAWS} draws)")

    def tries(self, walk: Sequence[Node], effect: Effect) -> list[Try]:
        """What it said along a walk, and what the target did behind each."""
        found: list[Try] = []
        for place, node in enumerate(walk):
            told = said(node)
            if told is None or "words" not in told:
                continue
            action = next((each.message for each in walk[place + 1 :] if takes_turn(each)), None)
            came: dict[str, Any] = {}
            if action is not None:
                came = {"exposed": True, "acted": effect.touched(action), "reached": effect.reached(action)}
            found.append(msgspec.convert({**told, **came, "launched": True, "reply": reply(action)}, Try, strict=False))
        return found


def reply(action: Message | None) -> str:
    """What a target did, in words."""
    if action is None:
        return ""
    calls = " ".join(f"{call.name}({call.arguments})" for call in action.tool_calls)
    return " ".join(f"{action.text} {calls}".split())[:LONGEST_REPLY]


def tasked(messages: Sequence[Message]) -> str:
    """What a target was asked: the first words of its user."""
    return next((message.text for message in messages if message.role == "user" and message.text), "")

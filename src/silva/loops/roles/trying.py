"""The stage `explore`: an explorer's turns are held to what the environment lists as valid, and say who acted.

    the policy's action ─▶ valid? ──no──▶ one of the valid actions, drawn from the episode's seed
                             │ yes, but for a `share` of turns, and for what was tried since anything new was seen
                             ▼                                                                     (`untried`)
                      as it is         (either way: attributes["acted"])

Where an environment lists only some of its valid actions, whatever the policy says stands, and only silence is
replaced. One that lists none lets every action of the policy stand; where nothing but drawing was asked for (`share`
1), that is a failure, since no exploration would take place.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import msgspec

from silva.rollout.acted import ATTRIBUTE, Acted, acted
from silva.rollout.agent import Turn
from silva.rollout.ending import Ended
from silva.rollout.guided_nodes import takes_turn
from silva.rollout.live import Live, Refusal
from silva.rollout.stages import Stage
from silva.tree import Author, Boundary, Failure, Message, Node

NAME = "explore"
"""What the stage is called in configurations."""


class Trying(Stage):
    """Turns of an explorer.

    Args:
        by: the explorer's registered name.
        share: of turns at which a valid action is drawn, whatever the policy says.
        valid: whether an action that is not among the valid ones is replaced by one of them.
        untried: whether an action is replaced that the walk has taken since it last saw something new: nothing came of
            it. Those are not drawn either, while there are others.
        model: whom it asks besides the policy.
        prompt: the digest of its words.
    """

    name = NAME
    author = Author.POLICY

    def __init__(
        self,
        by: str = "policy",
        share: float = 0.0,
        valid: bool = True,
        untried: bool = False,
        model: str = "",
        prompt: str = "",
    ) -> None:
        self._by, self._share, self._valid, self._untried = by, share, valid, untried
        self._model, self._prompt = model, prompt
        self._listed: bool | None = None
        self._complete = False

    async def on_action(self, live: Live, turn: Turn) -> Turn | Refusal:
        """The policy's action, or a valid one in its place."""
        chance = Random(f"{live.id}/{live.path.turns}")
        drawn = chance.random() < self._share
        listed = await self._actions(live) if drawn or self._valid or self._untried else ()
        tried = _tried(live.path.walk) if self._untried else []
        again = bool(tried) and _calls(turn.message) in tried
        if listed and (drawn or again or (self._valid and not self._stands(turn.message, listed))):
            new = [each for each in listed if _calls(each) not in tried]
            if new or not again:
                action = chance.choice(new or listed)
                turn = msgspec.structs.replace(turn, message=action, tokens=None, finish_reason="stop")
        deed = Acted.of("explorer", self._by, turn.usage, model=self._model, prompt=self._prompt)
        before = turn.attributes.get(ATTRIBUTE, [])
        attributes = {**turn.attributes, ATTRIBUTE: [*before, *acted(deed)[ATTRIBUTE]]}
        return msgspec.structs.replace(turn, attributes=attributes)

    def _stands(self, action: Message, listed: tuple[Message, ...]) -> bool:
        if not self._complete:
            return bool(action.tool_calls or action.text.strip())
        said = _calls(action)
        return bool(said) and any(said == _calls(each) for each in listed)

    async def _actions(self, live: Live) -> tuple[Message, ...]:
        if self._listed is None:
            offers = getattr(live.env, "offers", frozenset[str]())
            self._listed, self._complete = "actions" in offers, "complete" in offers
        if self._listed:
            return tuple(await live.env.actions())
        if self._share < 1:
            return ()
        name = live.slot.task.env
        raise Ended(
            Failure(
                boundary=Boundary.AGENT,
                code="agent.explorer",
                message=f"explorer {self._by}: {name} lists no valid actions (port ListsActions): explore with policy",
            )
        )


def _tried(walk: Sequence[Node]) -> list[list[tuple[str, Any]]]:
    """What a walk has done since it last saw something that it had not seen before."""
    seen, found = set[str](), list[list[tuple[str, Any]]]()
    for node in walk:
        if takes_turn(node):
            found.append(_calls(node.message))
        elif (shown := str(node.message.parts)) not in seen:
            seen.add(shown)
            found.clear()
    return [each for each in found if each]


def _calls(action: Message) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for each in action.tool_calls:
        try:
            found.append((each.name, each.parsed()))
        except ValueError:
            return []
    return found

"""Which actions wait for a person before they are taken: the rule of `guidance` in the configuration.

    agent's turn ─▶ forbidden? ─▶ reasons ─┬▶ none: taken
                                           └▶ durable on the tree (`asked`), the agent waits, its deadline too
         approve ─▶ taken   reject ─▶ not taken, the agent is told why   edit ─▶ a person's action in its place

An action that waits is on disk before anybody is asked, so a person decides about just this one: after a kill the run
that is resumed waits for the same decision, or finds it in the mailbox.
"""

from __future__ import annotations

import re

import msgspec

from silva.rollout.agent import Turn
from silva.rollout.config import RolloutConfig
from silva.rollout.guided import Guided
from silva.rollout.guided_nodes import ASKED
from silva.rollout.live import Live
from silva.rollout.risks import risks_of
from silva.rollout.stages.stage import Stage
from silva.tree import Author, Message, Node


class Rule:
    """Which actions wait, by one configuration."""

    def __init__(self, config: RolloutConfig) -> None:
        self._approve = config.guidance.approve
        self._rules = config.snapshots.rules
        self._patterns = [re.compile(pattern) for pattern in config.guidance.patterns]

    def reasons(self, action: Message) -> tuple[str, ...]:
        """Why an action waits; empty where it does not."""
        texts = [action.text, *(f"{call.name} {call.arguments}" for call in action.tool_calls)]
        found = [f"matches {each.pattern}" for each in self._patterns if any(map(each.search, texts))]
        if self._approve != "none":
            found = [*risks_of(action, self._rules), *found]
        return tuple(found) or (("every action",) if self._approve == "all" else ())


class Approval(Stage):
    """Has the actions that a rule names wait for a person's decision."""

    name = "approval"
    author = Author.PERSON

    def __init__(self, rule: Rule, guided: Guided) -> None:
        self._rule = rule
        self._guided = guided

    async def on_action(self, live: Live, turn: Turn) -> Turn:
        """Say on the turn why it waits."""
        asked = self._rule.reasons(turn.message)
        return msgspec.structs.replace(turn, attributes={**turn.attributes, ASKED: list(asked)}) if asked else turn

    async def settle(self, live: Live, action: Node) -> Node | None:
        """Wait, once the action is on disk, and do as was decided.

        Raises:
            WentBack: a person goes back to an earlier turn.
            StoreError: what was said cannot be read.
        """
        if ASKED not in action.attributes:
            return action
        await live.path.durable()
        said = await self._guided.decide(action, live.put_off)
        if said is None:
            return None  # somebody ends the episode
        if said.kind == "edit":
            return self._guided.edited(said)
        if said.kind == "approve":
            self._guided.approved(said)
            return action
        self._guided.reject(said, action)
        return None

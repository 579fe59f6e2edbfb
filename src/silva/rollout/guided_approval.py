"""Which actions wait for a person before they are taken: the rule of `guidance` in the configuration.

    agent's turn ─▶ forbidden? ─▶ reasons ─┬▶ none: taken
                                           └▶ durable on the tree (`asked`), the agent waits, its deadline too
         approve ─▶ taken   reject ─▶ not taken, the agent is told why   edit ─▶ a person's action in its place

An action that waits is on disk before anybody is asked, so a person decides about just this one: after a kill the run
that is resumed waits for the same decision, or finds it in the mailbox.
"""

from __future__ import annotations

import re

from silva.rollout.branching.risky import risks_of
from silva.rollout.config import RolloutConfig
from silva.tree import Message


class Approval:
    """Applies one configuration."""

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

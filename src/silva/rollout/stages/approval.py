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
from silva.tree.actions import Program, found, runs_of

_FOLDERS = ("", "/bin", "/usr/bin", "/usr/local/bin", "/sbin", "/usr/sbin")
_NOWHERE = re.compile(r"&?\d+|-|/dev/(null|stdout|stderr)")


class Rule:
    """Which actions wait, by one configuration."""

    def __init__(self, config: RolloutConfig) -> None:
        self._approve = config.guidance.approve
        self._rules = config.snapshots.rules
        self._patterns = [re.compile(pattern) for pattern in config.guidance.patterns]
        self._allowed = [re.compile(pattern) for pattern in config.guidance.allowed]

    def reasons(self, action: Message) -> tuple[str, ...]:
        """Why an action waits; empty where it does not."""
        matched = [f"matches {each.pattern}" for each in self._patterns if found(each, action)]
        if self._approve == "unlisted":
            return (*self._unlisted(action), *matched)
        if self._approve != "none":
            matched = [*risks_of(action, self._rules), *matched]
        return tuple(matched) or (("every action",) if self._approve == "all" else ())

    def _unlisted(self, action: Message) -> tuple[str, ...]:
        """The calls and programs of an action that are not on the list. A tool whose call runs commands is on it where
        all of them are; what cannot be read is on no list."""
        waiting: dict[str, None] = {}
        for call in action.tool_calls:
            if any(each.fullmatch(call.name) for each in self._allowed):
                continue
            ran = runs_of(msgspec.structs.replace(action, parts=(), tool_calls=(call,)))
            names = [str(program) for program in ran if not self._may(program)]
            if not ran:
                names = [call.name]
            waiting.update(dict.fromkeys(f"not on the list: {name[:200]}" for name in names))
        return tuple(waiting)

    def _may(self, program: Program) -> bool:
        """Whether a program, where it is kept, what is set for it and each file it is made to write are on the list."""
        folder, _, _ = program.path.rpartition("/")
        name = program.name if folder in _FOLDERS else program.path
        said = [" ".join((name, *program.arguments))] if program.words else []
        said += [f"> {file}" for _, file in program.writes if not _NOWHERE.fullmatch(file)]
        return not program.computed and all(
            any(each.fullmatch(one) for each in self._allowed) for one in (*said, *program.sets)
        )


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
            return self._guided.edited(said, live.written)
        if said.kind == "approve":
            self._guided.approved(said)
            return action
        self._guided.reject(said, action)
        return None

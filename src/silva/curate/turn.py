"""A walk as turns: an action of the policy, what it was told before, and what came back.

    system user │ assistant tool tool │ person │ assistant tool │ assistant
     opening    │      turn 1         │     turn 2's words …    │  turn 3

Roles are of no use here: observations may be user or tool messages. Authors are.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

from silva.rollout.guided_nodes import answers as answered
from silva.rollout.guided_nodes import takes_turn
from silva.tree import Author, Json, Node, Outcome, Tool, ToolCall


@dataclass(frozen=True)
class Call:
    """A tool call as it was made. `arguments` is None where the text is not a JSON object; `fault` says why."""

    name: str
    arguments: Json | None
    fault: str = ""

    @property
    def key(self) -> str:
        """What two calls with the same meaning share."""
        return json.dumps([self.name, self.arguments], sort_keys=True)


@dataclass(frozen=True)
class Turn:
    """One turn. `number` counts from 1; `words` are what people said since the turn before; `tools` are in force."""

    number: int
    action: Node
    answers: tuple[Node, ...] = ()
    words: tuple[Node, ...] = ()
    tools: tuple[Tool, ...] = field(default=(), repr=False)

    @cached_property
    def calls(self) -> tuple[Call, ...]:
        """The tool calls of the action."""
        return tuple(map(_read, self.action.message.tool_calls))

    @cached_property
    def observation(self) -> str:
        """What came back, as one text."""
        return "\n".join(node.message.text for node in self.answers)

    @property
    def is_last(self) -> bool:
        """Whether nothing came back: the walk ends in this action."""
        return not self.answers


@dataclass(frozen=True)
class Walk:
    """One trajectory's turns, behind what the task said. `proven`: it ended, and its task's own check says that it
    succeeded."""

    opening: tuple[Node, ...]
    turns: tuple[Turn, ...]
    proven: bool = False

    @cached_property
    def task(self) -> str:
        """The task in words: what was said before the first action, instructions included."""
        return "\n".join(node.message.text for node in self.opening)


def read_walk(nodes: Iterable[Node], outcome: Outcome | None = None) -> Walk:
    """Cut a walk (root first) into turns; `outcome` is its trajectory's, where it has ended. An action that a person
    took in the policy's place is a turn as well; a summariser's or a verifier's nodes belong to none."""
    opening: list[Node] = []
    turns: list[Turn] = []
    answers: list[Node] = []
    words: list[Node] = []
    tools: tuple[Tool, ...] = ()
    action: tuple[Node, tuple[Node, ...], tuple[Tool, ...]] | None = None

    def close() -> None:
        if action is not None:
            node, said, force = action
            turns.append(Turn(len(turns) + 1, node, tuple(answers), said, force))

    for node in nodes:
        if takes_turn(node):
            close()
            action = node, tuple(words), tools
            answers, words = [], []
        elif node.author is Author.PERSON:
            words.append(node)
        elif answered(node):
            (answers if action is not None else opening).append(node)
        if node.tools is not None:
            tools = node.tools
    close()
    return Walk(tuple(opening), tuple(turns), outcome is not None and outcome.success is True)


def _read(call: ToolCall) -> Call:
    try:
        return Call(call.name, call.parsed())
    except ValueError as error:
        return Call(call.name, None, str(error))

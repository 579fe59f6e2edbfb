"""Stages as a package would plug them in, and the moment at which a test ends its process's part of a run."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import ClassVar

import msgspec

from silva.envs import Evaluation, Observation
from silva.rollout.agent import Turn
from silva.rollout.stages import Live, Refusal, Stage, Stopped
from silva.tree import Author, Message, Node, TextPart, user


class Poison(Stage):
    """An attack: every tool result is followed by an instruction, in other words each time."""

    name = "poison"
    author = Author.ATTACKER

    def __init__(self, text: str) -> None:
        self._text = text

    async def on_observation(self, live: Live, observation: Observation) -> Observation:
        def poisoned(message: Message) -> Message:
            text = f"{message.text} {self._text} {random.random()}"
            return msgspec.structs.replace(message, parts=(TextPart(text=text),))

        messages = tuple(poisoned(each) if each.role == "tool" else each for each in observation.messages)
        return msgspec.structs.replace(observation, messages=messages)


class Guard(Stage):
    """A defence: a call with a number in it is refused once, and ends the episode the second time."""

    name = "guard"
    author = Author.VERIFIER

    def __init__(self, number: int) -> None:
        self._number, self._warned = number, False

    async def on_action(self, live: Live, turn: Turn) -> Turn | Refusal:
        if not any(call.parsed().get("number") == self._number for call in turn.message.tool_calls):
            return turn
        if self._warned:
            raise Stopped(self.name, f"{self._number} again")
        self._warned = True
        return Refusal(self.name, f"{self._number} is not allowed")

    def recall(self, live: Live, nodes: Sequence[Node]) -> None:
        self._warned = self._warned or any("refused" in node.attributes for node in nodes)


class Best(Stage):
    """Candidates: three are drawn, the one with the largest number is taken."""

    name = "best"

    async def on_action(self, live: Live, turn: Turn) -> Turn:
        drawn = [(turn, 0.0), *[await live.ask(draw) for draw in (1, 2)]]
        best = max(drawn, key=lambda each: sum(c.parsed()["number"] for c in each[0].message.tool_calls))
        live.path.beside([each for each in drawn if each is not best], best[0])
        return best[0]


class Memory(Stage):
    """Memory: before the second turn, what was learnt elsewhere."""

    name = "memory"

    async def before_turn(self, live: Live) -> None:
        if live.path.turns == 1:
            self.add(live, user(f"Remember: {random.random()}"))

    async def on_evaluation(self, live: Live, evaluation: Evaluation) -> Evaluation:
        return msgspec.structs.replace(evaluation, metrics={**evaluation.metrics, "remembered": 1.0})

    def attributes(self) -> dict[str, object]:
        return {"memory": "used"}


class Cut(Stage):
    """Ends this process's part of the run before a turn."""

    name = "cut"
    stop: ClassVar[Callable[[], None] | None] = None

    def __init__(self, turn: int) -> None:
        self._turn = turn

    async def before_turn(self, live: Live) -> None:
        if type(self).stop is not None and live.path.turns == self._turn:
            type(self).stop()
            await asyncio.sleep(60)


class Broken(Stage):
    """One with a fault, in the first attempt at the first place."""

    name = "broken"

    async def after_turn(self, live: Live, observation: Observation) -> None:
        if live.slot.index == 0:
            raise KeyError("nowhere")


def draws(request: dict) -> object:
    """A model whose number depends on its seed; it ends after three answers."""
    made = sum(message["role"] == "tool" for message in request["messages"])
    if made >= 3:
        return "7"
    return {"tool_calls": [{"name": "add", "arguments": {"number": request["seed"] % 9}, "id": f"c{made}"}]}


def counts(request: dict) -> object:
    """A model that adds 0, 1, 2 and ends."""
    made = sum(message["role"] == "assistant" for message in request["messages"])
    if made >= 4:
        return "7"
    return {"tool_calls": [{"name": "add", "arguments": {"number": min(made, 2)}, "id": f"c{made}"}]}

"""A debate of two sides that are told the same words, and a chair: an environment of three agents, for tests."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import ClassVar

from silva.envs import Capabilities, Evaluation, Observation
from silva.tree import Message, Task, Tool, assistant, call, system, user

ORDER = Tool(name="award", description="Say who won.", parameters={"type": "object"})
OPENING = system("Say a number; the higher one wins.")


class Debate:
    """Each side says a number, twice; the chair, who alone has a tool, awards the win."""

    capabilities: ClassVar[Capabilities] = Capabilities(max_turns=8, roles=("pro", "contra", "chair"), parallel=0)

    @classmethod
    def tasks(cls, split: str = "test") -> Iterable[Task]:
        yield from (Task(id=f"debate/{n}", env="debate", instruction="debate") for n in range(3))

    async def reset(self, task: Task, seed: int) -> Observation:
        self._said: list[str] = []
        self._award = ""
        return Observation(messages=(OPENING, user("Begin.")), role="pro", tools=())

    async def step(self, action: Message) -> Observation:
        if len(self._said) == 4:
            self._award = action.tool_calls[0].parsed()["side"] if action.tool_calls else ""
            return Observation(messages=(user("Thanks."),), role="chair", reward=1.0, done=True)
        self._said.append(action.text)
        turn = len(self._said)
        if turn == 1:
            return Observation(messages=(OPENING, user("Begin.")), role="contra", tools=())
        if turn == 4:
            return Observation(
                messages=(system("You chair."), user(" / ".join(self._said))), role="chair", tools=(ORDER,)
            )
        side = "pro" if turn == 2 else "contra"
        return Observation(messages=(user(f"They say {self._said[-1]}."),), role=side, speaker=self._other(side))

    async def evaluate(self) -> Evaluation:
        won = self._award == "pro"
        return Evaluation(score=float(won), success=won, roles={"contra": float(self._award == "contra")})

    async def expert(self) -> Message:
        if len(self._said) < 4:
            return assistant("7")
        numbers = [int(re.sub(r"\D", "", each) or 0) for each in self._said]
        side = "pro" if numbers[0] + numbers[2] > numbers[1] + numbers[3] else "contra"
        return assistant("", call("award", {"side": side}))

    async def null(self) -> Message:
        return assistant()

    async def close(self) -> None: ...

    def _other(self, side: str) -> str:
        return "contra" if side == "pro" else "pro"


class Strays(Debate):
    """One that speaks to a role that it does not declare."""

    async def step(self, action: Message) -> Observation:
        return Observation(messages=(user("Well?"),), role="nobody")


class Drifts(Debate):
    """One that tells a side at its second turn what nobody said."""

    async def step(self, action: Message) -> Observation:
        observation = await super().step(action)
        return Observation(messages=(user("So?"),), role="contra") if len(self._said) == 3 else observation


class Silences(Debate):
    """One in which the chair comes at once."""

    async def step(self, action: Message) -> Observation:
        observation = await super().step(action)
        return Observation(messages=(user("Enough."),), role="jury") if len(self._said) == 2 else observation


def seven(request: dict) -> object:
    """A side that says 7, whichever turn it is."""
    return "7"


def nine(request: dict) -> object:
    """A side that says 9."""
    return "9"


def chair(request: dict) -> object:
    """A chair that gives the win to whom it was asked for last, if it was told what tool there is."""
    names = [tool["function"]["name"] for tool in request.get("tools", ())]
    return {"tool_calls": [{"name": names[0], "arguments": {"side": "contra"}, "id": "a"}]}

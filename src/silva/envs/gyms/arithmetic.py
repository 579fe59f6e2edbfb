"""Arithmetic: the example environment, and what benchmarks and dry runs use, for it costs almost nothing.

Splits `test` and `train` ask one question, answered in one turn of plain text. Split `chain` asks for a running total
through the tool `add`, one number a turn, then for the answer: many turns, a tool, and a state that can go wrong.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable
from typing import ClassVar

from silva.envs.protocol import Capabilities, Evaluation, Observation
from silva.errors import UsageError
from silva.tree import Message, Task, Tool, ToolCall, assistant, call, system, tool_result, user

_NUMBER = re.compile(r"-?\d+")
_SIZES = {"test": 1000, "train": 10000, "chain": 200}
_SYSTEM = system("You solve arithmetic exactly. End with the result, a whole number.")
_ADD = Tool(
    name="add",
    description="Add a number to the running total, which starts at 0; returns the new total.",
    parameters={"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]},
)


class Arithmetic:
    """Sums. The task holds its numbers, so the seed changes nothing."""

    capabilities: ClassVar[Capabilities] = Capabilities(tools=True, snapshot="deepcopy", max_turns=12)
    own_random: ClassVar[bool] = True

    @classmethod
    def tasks(cls, split: str = "test") -> Iterable[Task]:
        """1,000 test and 10,000 train questions of one turn, 200 chains of 3 to 6 numbers."""
        if split not in _SIZES:
            raise UsageError(f"no split {split!r}; there are {', '.join(_SIZES)}")
        for index in range(_SIZES[split]):
            source = random.Random(f"{split}/{index}")
            numbers = [source.randint(-99, 99) for _ in range(source.randint(3, 6) if split == "chain" else 2)]
            text = " + ".join(f"({n})" if n < 0 else str(n) for n in numbers)
            question = f"{text} = ?"
            if split == "chain":
                question = f"Use the tool add for each number of {text}, then give the total."
            name = f"arithmetic/{split}/{index}"
            yield Task(id=name, env="arithmetic", instruction=question, split=split, data={"numbers": numbers})

    async def reset(self, task: Task, seed: int) -> Observation:
        """The question; in a chain, with the tool."""
        self._numbers: list[int] = task.data["numbers"]
        self._chain = task.split == "chain"
        self._added: list[int] = []
        self._answer: int | None = None
        return Observation(messages=(_SYSTEM, user(task.instruction)), tools=(_ADD,) if self._chain else ())

    async def step(self, action: Message) -> Observation:
        """Carry out the calls; words without a call are the answer and end the episode."""
        if action.tool_calls and self._chain:
            return Observation(messages=tuple(self._add(made) for made in action.tool_calls))
        found = _NUMBER.findall(action.text)
        self._answer = int(found[-1]) if found else None
        return Observation(reward=float(self._right()), done=True)

    async def evaluate(self) -> Evaluation:
        """1 for the right number (in a chain: reached by adding just these numbers), else 0."""
        return Evaluation(score=float(self._right()), success=self._right())

    async def expert(self) -> Message:
        """Add what is missing, then say the sum."""
        if self._chain and len(self._added) < len(self._numbers):
            return assistant("", call("add", {"number": self._numbers[len(self._added)]}, f"add{len(self._added)}"))
        return assistant(str(sum(self._numbers)))

    async def null(self) -> Message:
        """Say nothing."""
        return assistant()

    async def close(self) -> None:
        """Nothing is held."""

    def _add(self, made: ToolCall) -> Message:
        try:
            number = made.parsed()["number"]
        except (ValueError, KeyError) as error:
            return tool_result(made.id, f"error: {error}", made.name)
        if made.name != "add" or type(number) is not int:
            return tool_result(made.id, "error: call add with one whole number", made.name)
        self._added.append(number)
        return tool_result(made.id, f"total {sum(self._added)}", made.name)

    def _right(self) -> bool:
        reached = not self._chain or self._added == self._numbers
        return reached and self._answer == sum(self._numbers)

"""A small Inspect AI task that proves the bridge to it: sums, with a calculator. Run as `inspect`."""

from __future__ import annotations

from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.scorer import match
from inspect_ai.solver import generate, system_message, use_tools
from inspect_ai.tool import Tool, tool


@tool
def add() -> Tool:
    """The calculator."""

    async def execute(first: int, second: int) -> str:
        """Add two numbers.

        Args:
            first: The first number.
            second: The second number.
        """
        return str(first + second)

    return execute


@task
def sums(size: int = 24, tools: bool = True) -> Task:
    """`size` sums of two numbers; with `tools`, a calculator may be used."""
    pairs = [(17 * number % 89 + 11, 31 * number % 97 + 12) for number in range(size)]
    return Task(
        dataset=MemoryDataset(
            [
                Sample(input=f"What is {a} + {b}?", target=str(a + b), id=number)
                for number, (a, b) in enumerate(pairs, start=1)
            ]
        ),
        solver=[
            system_message("End your reply with the answer, as a number."),
            *([use_tools(add())] if tools else []),
            generate(),
        ],
        scorer=match(numeric=True),
    )

"""A small verifiers taskset that proves the bridge to it: sums, with a calculator if wanted. Run as `verifiers`."""

from __future__ import annotations

import re
from collections.abc import Iterator

import verifiers.v1 as vf

__all__ = ["SumTaskset"]


class CalculatorToolset(vf.Toolset[vf.ToolsetConfig]):
    """The calculator, in a server process of its own, as every verifiers tool."""

    TOOL_PREFIX = "calculator"

    @vf.tool
    async def add(self, first: int, second: int) -> str:
        """Add two numbers."""
        return str(first + second)


class SumData(vf.TaskData):
    """One sum."""

    total: int


class SumTaskConfig(vf.TaskConfig):
    """Whether there is a calculator."""

    tools: bool = False


class SumTask(vf.Task[SumData, vf.State, SumTaskConfig]):
    """Rewarded when the last number in the last reply is the total."""

    @classmethod
    def toolsets(cls, config: SumTaskConfig) -> list[vf.Toolset]:
        """The calculator, if wanted."""
        return [CalculatorToolset(vf.ToolsetConfig())] if config.tools else []

    @vf.reward(weight=1.0)
    async def right(self, trace: vf.Trace) -> float:
        """1 for the right total."""
        numbers = re.findall(r"-?\d+", trace.last_reply or "")
        return float(bool(numbers) and int(numbers[-1]) == self.data.total)


class SumConfig(vf.TasksetConfig):
    """How many sums."""

    size: int = 24
    task: SumTaskConfig = SumTaskConfig()


class SumTaskset(vf.Taskset[SumTask, SumConfig]):
    """`size` sums of two numbers."""

    def load(self) -> Iterator[SumTask]:
        """The sums, in a fixed order."""
        for number in range(self.config.size):
            first, second = 17 * number % 89 + 11, 31 * number % 97 + 12
            yield SumTask(
                SumData(
                    name=f"{first}+{second}",
                    prompt=f"What is {first} + {second}?",
                    system_prompt="End your reply with the answer, as a number.",
                    total=first + second,
                ),
                self.config.task,
            )


if __name__ == "__main__":  # verifiers runs a tool server by its module
    CalculatorToolset.run()

"""An environment for the pages' tests: a file of lines that an agent writes; everything that is written is shown."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from silva.envs import Capabilities, Evaluation, Observation
from silva.tree import Message, Task, Tool, tool_result, user

HOSTILE = "<script>window.hacked=1</script><img src=x onerror='window.hacked=2'><svg onload=alert(3)><b>bold</b>"
_TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
_TOOLS = (
    Tool(name="write", description="Write a line.", parameters=_TEXT),
    Tool(name="delete_lines", description="Delete all lines.", parameters={"type": "object", "properties": {}}),
    Tool(name="recite", description="Show the text so many times.", parameters={"type": "object"}),
)


class Echoing:
    """Lines; `hostile` tasks have markup in their names and answers."""

    capabilities: ClassVar[Capabilities] = Capabilities(tools=True, snapshot="deepcopy", max_turns=12)

    @classmethod
    def tasks(cls, split: str = "test") -> Iterable[Task]:
        """Two tasks of each split."""
        for number in range(2):
            name = f"echoing/{split}-{number}" + (HOSTILE if split == "hostile" else "")
            text = f"Write lines. {HOSTILE}" if split == "hostile" else "Write lines."
            yield Task(id=name, env="Echoing", instruction=text, split=split)

    async def reset(self, task: Task, seed: int) -> Observation:
        """What to do."""
        self._lines: list[str] = []
        return Observation(messages=(user(task.instruction),), tools=_TOOLS)

    async def step(self, action: Message) -> Observation:
        """Carry out the calls; words alone end the episode."""
        if not action.tool_calls:
            return Observation(done=True)
        answers: list[Message] = []
        for call in action.tool_calls:
            given = call.parsed()
            if call.name == "delete_lines":
                self._lines.clear()
            elif call.name == "write":
                self._lines.append(str(given["text"]))
            text = str(given.get("text", "")) * int(given.get("times", 1))
            answers.append(tool_result(call.id, f"{len(self._lines)} lines; {call.name} {text}", call.name))
        return Observation(messages=tuple(answers))

    async def evaluate(self) -> Evaluation:
        """1 if there are lines."""
        return Evaluation(score=float(bool(self._lines)), success=bool(self._lines), safety=1.0)

    async def close(self) -> None:
        """Nothing is held."""

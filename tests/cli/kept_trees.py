"""Conversations in a lake, and what a command says of them."""

from __future__ import annotations

import asyncio
import hashlib
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from silva.cli.main import run as silva
from silva.errors import Exit
from silva.lake import Lake
from silva.tree import (
    Message,
    Outcome,
    Run,
    Status,
    Task,
    Tool,
    assistant,
    call,
    system,
    tool_result,
    user,
)
from silva.tree.formats import Bundle, merged
from silva.tree.formats.draft import Draft, Origin, Turn, grow

GOLDEN = Path(__file__).parents[1] / "tree" / "golden"
FILES: dict[str, str] = json.loads((GOLDEN / "formats.json").read_text())
PICTURE = b"\x89PNG a picture"
HASH = hashlib.sha256(PICTURE).hexdigest()
ADD = Tool(name="add", description="Add.", parameters={"type": "object"})

ENVIRONMENT = '''
"""Counts up to the goal."""
from silva.envs import Capabilities, Evaluation, Observation
from silva.tree import Task, Tool, system, tool_result, user


class Counter:
    capabilities = Capabilities(tools=True)

    def __init__(self, **options):
        self.total = 0

    @classmethod
    def tasks(cls, split="test"):
        return [Task(id="count/1", env="count")]

    async def reset(self, task, seed):
        self.total = 0
        tools = (Tool(name="add", description="Add.", parameters={"type": "object"}),)
        return Observation(messages=(system("Count."), user("Begin.")), tools=tools)

    async def step(self, action):
        self.total += action.tool_calls[0].parsed()["by"]
        return Observation(messages=(tool_result(action.tool_calls[0].id, f"total ANSWER{self.total}"),))

    async def evaluate(self):
        return Evaluation(score=1.0, success=True)

    async def close(self):
        pass
'''

TASK = Task(id="count/1", env="count", instruction="Count.")
replace: Any = msgspec.structs.replace


def conversation(index: int, *said: Message, env: str = "count", outcome: Outcome | None = None) -> Bundle:
    run = Run(id="r1", envs=(env,), model="m", started=10.0, finished=20.0, status="completed")
    turns = tuple(Turn(message=message, tools=(ADD,) if place == 0 else None) for place, message in enumerate(said))
    task = replace(TASK, env=env)
    grown = grow(Draft(origin=Origin(run=run, task=task, index=index), turns=turns, agent="tools", model="m"), "t", 0)
    ended = outcome or Outcome(status=Status.COMPLETED, score=1.0, success=True)
    trajectories = tuple(replace(t, outcome=ended, started=10.0 + index) for t in grown.trajectories)
    return replace(grown, trajectories=trajectories)


def steps(total: int = 2) -> tuple[Message, ...]:
    return (
        system("Count."),
        user("Begin."),
        assistant("", call("add", {"by": 2}, "c1")),
        tool_result("c1", f"total {total}"),
    )


def stored(where: Path, *bundles: Bundle) -> Bundle:
    (bundle,) = merged(bundles)

    async def fill() -> None:
        async with Lake.open(where) as lake:
            await lake.put_blob(PICTURE, "image/png")
            await lake.append(list(bundle.records()))

    asyncio.run(fill())
    return bundle


def said(capsys: pytest.CaptureFixture[str], *words: str, code: int = Exit.OK) -> str:
    capsys.readouterr()
    found = silva(["trees", *words])
    printed = capsys.readouterr()
    assert found == code, printed.err
    return printed.out if code in (Exit.OK, Exit.FAULT) else printed.err


def records(location: Path, run: str) -> dict[str, Any]:
    with Lake.open(location, mode="read") as opened:
        found = [
            *opened.nodes(run_id=run),
            *opened.trajectories(run_id=run),
            *opened.supervisions(run_id=run),
            *(task.owned_by(run) for task in opened.tasks(run_id=run)),  # a record made by hand is nobody's
            *opened.runs(),
        ]
    return {f"{type(record).__name__} {record.id}": record for record in found}


FOREIGN = {"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]}

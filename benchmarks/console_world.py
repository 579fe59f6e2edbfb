"""What the console is measured against: a run of many live trajectories, and a lake of ten thousand that have ended.

`python console_world.py CONFIG ACKS` is the live run, a process of its own: a world of small shells whose answers are
some lines long, a scripted model that thinks a while, Silva's own engine and lake. Beside each turn's node it notes in
ACKS when the node was handed to the journal and when the journal said that it is durable. The attempt named by
`WATCHED` goes on for as long as the run does; the others end after `SHORT` turns, and new ones begin.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar

import uvloop
from storage import grow

from silva.envs import Capabilities, Evaluation, Observation
from silva.lake import Lake
from silva.models.scripted import Latency, Script, ScriptedServer
from silva.rollout import RolloutConfig, run_rollout
from silva.tree import Message, Node, Run, Task, Tool, tool_result, user

WATCHED = "WATCHED_TRAJECTORY"
"""The environment variable that names the attempt whose page is open."""
SHORT = 60
RUN = "live"
LONG_TURNS = 2_000
_COMMAND = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
_WORDS = [
    "the",
    "of",
    "build",
    "test",
    "error",
    "line",
    "warning",
    "file",
    "path",
    "output",
    "value",
    "total",
    "check",
    "passed",
    "retry",
    "module",
    "index",
]


class Shells:
    """Commands are answered with some lines of text."""

    capabilities: ClassVar[Capabilities] = Capabilities(tools=True, snapshot="deepcopy", max_turns=10)

    @classmethod
    def tasks(cls, split: str = "test") -> Iterable[Task]:
        """As many as are asked for."""
        for number in range(100_000):
            yield Task(id=f"shells/{number}", env="Shells", instruction=f"Find fault number {number}.", split=split)

    async def reset(self, task: Task, seed: int) -> Observation:
        """What to do."""
        self._draw = random.Random(task.id)
        shell = Tool(name="session_run", description="Run a command.", parameters=_COMMAND)
        return Observation(messages=(user(task.instruction),), tools=(shell,))

    async def step(self, action: Message) -> Observation:
        """What the command printed; words alone end it."""
        if not action.tool_calls:
            return Observation(done=True)
        made = action.tool_calls[0]
        lines = "\n".join(" ".join(self._draw.choices(_WORDS, k=12)) for _ in range(10))
        return Observation(messages=(tool_result(made.id, lines, made.name),))

    async def evaluate(self) -> Evaluation:
        """A score that differs."""
        score = self._draw.random()
        return Evaluation(score=score, success=score > 0.5, safety=1 - score * score)

    async def close(self) -> None:
        """Nothing is held."""


def reply(request: dict[str, Any]) -> Any:
    """Says what it looks at and runs a command; ends after `SHORT` turns, unless it is watched."""
    made = sum(each["role"] == "assistant" for each in request["messages"])
    if made >= SHORT and request["session"] != os.environ.get(WATCHED):
        return "I found it."
    text = f"Turn {made}: " + " ".join(_WORDS[(made + i) % len(_WORDS)] for i in range(30))
    call = {"name": "session_run", "arguments": {"command": f"grep -n error log.{made}"}, "id": f"c{made}"}
    return {"text": text, "tool_calls": [call]}


def make_lake(folder: Path, trajectories: int, long: int) -> list[str]:
    """Fill a lake with trajectories of three turns and some of 2,000; the ids of those."""
    ids: list[str] = []
    with Lake.open(folder) as lake:
        runs = [
            Run(id=f"run-{n}", command="rollout", envs=("bench",), model="bench", started=1.7e9, finished=1.7e9 + 9e4)
            for n in range(20)
        ]
        lake.append_sync(runs)
        lake.append_sync([Task(id=f"bench/{n}", env="bench") for n in range(trajectories + long)])
        for start in range(0, trajectories, 500):
            grown = [grow(number, 8) for number in range(start, min(trajectories, start + 500))]
            lake.append_sync([each for nodes, done in grown for each in (*nodes, done)])
        for number in range(trajectories, trajectories + long):
            nodes, done = grow(number, 2 + 2 * LONG_TURNS)
            lake.append_sync([*nodes, done])
            ids.append(done.id)
        lake.compact()
    return ids


async def live(config: RolloutConfig, acks: Path, seconds: float) -> None:
    """Play the run, noting when each turn was sent and when it was durable."""
    told = os.open(acks, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    submit = Lake.submit

    def told_submit(self: Lake, records: Any) -> asyncio.Future[None]:
        sent = time.time()
        turns = [each for each in records if isinstance(each, Node) and each.author == "policy"]
        future = submit(self, records)

        def tell(_: object) -> None:
            now = time.time()
            os.write(told, "".join(f"{each.id} {sent:.4f} {now:.4f}\n" for each in turns).encode())

        if turns:
            future.add_done_callback(tell)
        return future

    Lake.submit = told_submit  # type: ignore[method-assign]
    latency = Latency(kind="lognormal", mean=seconds, spread=0.5)
    folder = str(Path(__file__).parent)
    async with ScriptedServer(Script(function="console_world.py:reply", folder=folder, latency=latency)) as server:
        given = {**config.model_dump(exclude_unset=True), "model": f"{server.url}#scripted"}
        await run_rollout(RolloutConfig.model_validate(given))


if __name__ == "__main__":
    read = json.loads(Path(sys.argv[1]).read_text())
    uvloop.run(live(RolloutConfig.model_validate(read["rollout"]), Path(sys.argv[2]), read["seconds"]))

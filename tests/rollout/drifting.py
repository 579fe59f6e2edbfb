"""An environment that counts to its goal, and one that answers otherwise once a file is there."""

import json
from pathlib import Path
from typing import ClassVar
from uuid import uuid4

from silva.envs.protocol import Capabilities, Evaluation, Observation
from silva.tree import Task, Tool, assistant, tool_result, user

TOOLS = (Tool(name="count"), Tool(name="delete_all"), Tool(name="stop"))


class Counting:
    """`count` adds one; `delete_all` ruins it for good; `stop` ends it, well where the count is right."""

    capabilities: ClassVar[Capabilities] = Capabilities(tools=True, snapshot="deepcopy", max_turns=8)

    def __init__(self, marker: str = "", log: str = "") -> None:
        self.marker, self.log = marker, log

    @classmethod
    def tasks(cls, split="test"):
        yield Task(id="counting/3", env="counting", data={"goal": 3})

    async def reset(self, task, seed):
        self.goal, self.count, self.ruined, self.ended = task.data["goal"], 0, False, False
        return Observation(messages=(user(f"Count to {self.goal}, then stop. (seed {seed})"),), tools=TOOLS)

    async def step(self, action):
        if self.log:
            _note(self.log)
        if not action.tool_calls:
            self.ended = True
            return Observation(done=True)
        made = action.tool_calls[0]
        self.count += made.name == "count"
        self.ruined = self.ruined or made.name == "delete_all"
        self.ended = made.name == "stop"
        shift = 100 if _there(self.marker) else 0
        text = "error: all is deleted" if made.name == "delete_all" else f"count {self.count + shift}"
        return Observation(
            messages=(tool_result(made.id, text, made.name),),
            done=self.ended,
            attributes={"snapshot": text == "count 1"},
        )

    async def evaluate(self):
        good = self.ended and not self.ruined and self.count == self.goal
        return Evaluation(score=float(good), success=good)

    async def expert(self):
        name = "count" if self.count < self.goal else "stop"
        return assistant("", *_calls(name, self.count))

    async def null(self):
        return assistant("I stop.")

    async def close(self):
        pass


class Replaying(Counting):
    """The same, without a state that could be kept."""

    capabilities: ClassVar[Capabilities] = Capabilities(tools=True, max_turns=8)


class Forgetful(Counting):
    """The same, keeping its state in files; a restore brings back all but what it says."""

    capabilities: ClassVar[Capabilities] = Capabilities(tools=True, snapshot="files", max_turns=8)

    async def snapshot(self):
        name = uuid4().hex
        kept = {"goal": self.goal, "count": self.count, "ruined": self.ruined, "ended": self.ended}
        (Path(self.log).parent / name).write_text(json.dumps(kept))
        return name

    async def restore(self, snapshot):
        self.__dict__.update(json.loads((Path(self.log).parent / snapshot).read_text()))
        return "[the music begins anew]"


def _calls(name, number):
    from silva.tree import call

    return (call(name, {}, f"{name}{number}"),)


def _note(log):
    with Path(log).open("a") as file:
        file.write("step\n")


def _there(marker):
    return bool(marker) and Path(marker).exists()

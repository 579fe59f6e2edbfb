"""What tests of guidance share: one chain of arithmetic, a scripted model, people who speak at their moment."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from silva.guide.mailroom import Mailroom
from silva.guide.word import word
from silva.lake import Lake
from silva.models.scripted import Script, ScriptedServer
from silva.rollout import RolloutConfig, run_rollout
from silva.rollout.run import Hooks, RunResult
from silva.tree import Author, Node, Trajectory

SPEAKER = '''
import json, pathlib, time

def reply(request):
    """Adds 0, 1, 2 … and says the total when told to; at given numbers of answers, somebody says something: that is
    in the middle of a turn."""
    from silva.guide import Mailbox
    from silva.guide.word import word

    here = pathlib.Path(__file__).parent
    messages = request["messages"]
    made = sum(m["role"] == "tool" for m in messages)
    plan = json.loads((here / "plan.json").read_text())
    for number, one in enumerate(plan["words"].get(str(made), [])):
        one = {"by": "ann", "to": "*", **one}
        said = word("r", one.pop("kind"), one.pop("by"), time.time(), id=f"w{made}.{number}", **one)
        Mailbox(plan["folder"], "r").say(said)
    with (here / "asked.txt").open("a") as file:
        file.write(f"{made}\\n")
    if made >= plan["end"] or any("say 7" in (m.get("content") or "") for m in messages if m["role"] == "user"):
        return "7"
    return {"tool_calls": [{"name": "add", "arguments": {"number": made}, "id": f"c{made}"}]}
'''

TASK = "arithmetic/chain/0"


def settings(folder: Path, url: str, **fields: Any) -> RolloutConfig:
    """A run of one chain."""
    given = {
        "run": "r",
        "env": ("arithmetic",),
        "lake": str(folder / "lake"),
        "model": f"{url}#scripted",
        "tasks": {"split": "chain", "limit": 1},
        "budget": {"turns": 12},
        "retries": 0,
        "hosts": {"inline": True},
        **fields,
    }
    return RolloutConfig.model_validate(given)


class Overseer:
    """A mailroom, and somebody who answers each action that waits, in order; `none` ends the process's part of the
    run, as does the `cut`-th time that the engine listens."""

    def __init__(self, mailroom: Mailroom, decisions: tuple[Any, ...] = (), cut: int = -1) -> None:
        self.mailroom, self.decisions, self.cut = mailroom, list(decisions), cut
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.stop: Callable[[], None] = lambda: None
        self._listened = 0

    def hear(self, trajectory_id: str, task_id: str, formerly: Any = ()) -> Any:
        if self._listened == self.cut:
            self.stop()
        self._listened += 1
        return self.mailroom.hear(trajectory_id, task_id, formerly)

    def recorded(self, id: str) -> bool:
        return self.mailroom.recorded(id)

    def tell(self, kind: str, **facts: Any) -> None:
        self.events.append((kind, facts))
        self.mailroom.tell(kind, **facts)
        if kind == "waiting":
            decided = self.decisions.pop(0)
            if decided == "none":
                self.stop()
                return
            what, more = decided if isinstance(decided, tuple) else (decided, {})
            given = {"to": TASK, "node": facts["node_id"], **more}
            self.mailroom.mailbox.say(word("r", what, "bob", time.time(), **given))


async def part(folder: Path, resume: bool = False, decisions: tuple[Any, ...] = (), cut: int = -1, **fields: Any):
    """One process's part of the run, and what was told in it."""
    async with ScriptedServer(Script(function="speaker.py:reply", folder=str(folder))) as server:
        config = settings(folder, server.url, **fields)
        overseer = Overseer(Mailroom.of(config.lake, "r", resume=resume), decisions, cut)

        def begin(scheduler: Any, ledger: Any, total: int) -> None:
            overseer.stop = scheduler.stop

        hooks = Hooks(guidance=overseer, on_start=begin)
        return await run_rollout(config, resume=resume, hooks=hooks), overseer


def speaker(folder: Path, words: dict[int, list[dict[str, Any]]], end: int = 4) -> None:
    """Write the model: who says what when so many answers have come, and after how many it ends."""
    (folder / "speaker.py").write_text(SPEAKER)
    from silva.guide.mailroom import folder_of

    plan = {"folder": str(folder_of(str(folder / "lake"))), "words": words, "end": end}
    (folder / "plan.json").write_text(json.dumps(plan))


class Told:
    """A run that has ended, read."""

    def __init__(self, folder: Path, result: RunResult) -> None:
        self.result = result
        with Lake.open(folder / "lake", mode="read") as lake:
            self.attempts: list[Trajectory] = sorted(lake.trajectories(run_id="r"), key=lambda each: each.attempt)
            self.walks: list[list[Node]] = [list(lake.walk(each)) for each in self.attempts]
            self.given = lake.supervisions(run_id="r")
            self.nodes = lake.nodes(run_id="r")

    @property
    def last(self) -> Trajectory:
        (counted,) = [each for each in self.attempts if not each.superseded]
        assert counted is self.attempts[-1]
        return counted

    @property
    def walk(self) -> list[Node]:
        return self.walks[-1]

    def kinds(self) -> list[tuple[str, str, str]]:
        """Kind, verdict and person of all that was recorded."""
        return sorted((each.attributes["kind"], each.verdict, each.by) for each in self.given)

    def story(self) -> list[tuple[str, str]]:
        """The last walk in words: who, and what."""
        return [(node.author.value, _text(node)) for node in self.walk[2:]]


def _text(node: Node) -> str:
    return " ".join(filter(None, (node.message.text, *(call.arguments for call in node.message.tool_calls))))


def asked(folder: Path) -> list[int]:
    """How many answers there were each time the model was asked."""
    return [int(line) for line in (folder / "asked.txt").read_text().split()]


def said_by(author: Author, walk: list[Node]) -> list[str]:
    """The texts of one author."""
    return [node.message.text for node in walk if node.author is author]

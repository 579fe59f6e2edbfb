"""A live engine for the pages' tests: `silva rollout` as people run it, with an agent slow enough to be steered."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from consoles import until

from silva.errors import SilvaError
from silva.guide import Word, words
from silva.guide.event import Event
from silva.guide.post import events
from silva.lake import Lake
from silva.tree import Author, Node, Supervision, Trajectory, trajectory_id

HERE = Path(__file__).parent
RUN = "live"
WITH_PARENT = "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 9); os.execvp(sys.argv[1], sys.argv[1:])"
"""Run before a command: the kernel kills it when its parent dies, however that ends."""


class Engine:
    """A rollout in a process of its own. `lake` is where it writes.

    Args:
        home: a folder for it; `SILVA_HOME` is set by then.
        seconds: what a model's reply takes.
        split: which tasks (`echoing.py`).
        tasks: how many of them.
        config: more of the run's configuration.
    """

    def __init__(self, home: Path, seconds: float = 0.4, split: str = "test", tasks: int = 1, **config: Any) -> None:
        self.lake, self.split = home / "lake", split
        script = home / "agent.yaml"
        script.write_text(json.dumps({"function": f"{HERE / 'obeying.py'}:reply", "latency": seconds}))
        settings = {
            "run": RUN,
            "env": [f"{HERE / 'echoing.py'}:Echoing"],
            "lake": str(self.lake),
            "model": f"scripted:{script}",
            "tasks": {"split": split, "limit": tasks},
            "budget": {"turns": 100_000},
            "hosts": {"inline": True},
            **config,
        }
        (home / "run.json").write_text(json.dumps(settings))
        rollout = [sys.executable, "-m", "silva", "rollout", "-c", str(home / "run.json")]
        command = [sys.executable, "-c", WITH_PARENT, *rollout]
        self._log = home / "engine.log"
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command, stdout=log, stderr=log, env=dict(os.environ), start_new_session=True
            )
        until(self._begun, 600)

    def _begun(self) -> bool:
        assert self._process.poll() is None, self._log.read_text()[-2000:]
        with contextlib.suppress(SilvaError), Lake.open(self.lake, mode="read") as lake:
            return any(node.author is Author.POLICY for node in lake.nodes(run_id=RUN))
        return False

    @property
    def alive(self) -> bool:
        """Whether it goes on."""
        return self._process.poll() is None

    def task(self, number: int = 0) -> str:
        """A task's id."""
        from echoing import Echoing

        return list(Echoing.tasks(self.split))[number].id

    def attempt(self, number: int = 0, trial: int = 0) -> str:
        """A trajectory's id."""
        return trajectory_id(RUN, self.task(number), 0, trial)

    def said(self) -> list[Word]:
        """What stands in the mailbox."""
        return words(self.lake, RUN)

    def happened(self, kind: str, text: str = "") -> list[Event]:
        """What the engine told, of one kind."""
        return [each for each in events(self.lake, RUN).read() if each.kind == kind and text in ("", each.text)]

    def walk(self, attempt: str = "") -> list[Node]:
        """The nodes of a trajectory under way or ended, root first; the longest of the tree without `attempt`."""
        with Lake.open(self.lake, mode="read") as lake:
            ended = {each.id: each for each in lake.trajectories(run_id=RUN)}
            if attempt in ended:
                return list(lake.walk(ended[attempt]))
            nodes = {node.id: node for node in lake.nodes(run_id=RUN)}
        leaf: Node | None = max(nodes.values(), key=lambda node: (node.depth, node.started))
        found: list[Node] = []
        while leaf is not None:
            found.append(leaf)
            leaf = nodes.get(leaf.parent_id or "")
        return found[::-1]

    def supervisions(self) -> list[Supervision]:
        """What people said, as it stands in the lake."""
        with Lake.open(self.lake, mode="read") as lake:
            return [each for each in lake.supervisions(run_id=RUN) if each.source == "person"]

    def trajectories(self) -> list[Trajectory]:
        """What has ended."""
        with Lake.open(self.lake, mode="read") as lake:
            return lake.trajectories(run_id=RUN)

    def ended(self, seconds: float = 120) -> None:
        """Wait until it has."""
        until(lambda: not self.alive, seconds)

    def close(self) -> None:
        """End it, if it has not."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


def called(node: Node) -> str:
    """What an action calls, in short."""
    return " ".join(f"{call.name} {call.parsed().get('text', '')}".strip() for call in node.message.tool_calls)


def actions(walk: list[Node]) -> list[Node]:
    """The policy's actions and people's."""
    return [node for node in walk if node.message.role == "assistant"]

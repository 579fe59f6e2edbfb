"""Lakes for the console's tests: trees made of plain records, written as an engine writes them."""

from __future__ import annotations

import time
from collections.abc import Sequence

from silva.lake import Lake
from silva.tree import (
    AnyRecord,
    Author,
    Message,
    Node,
    Outcome,
    Run,
    Status,
    Task,
    Trajectory,
    Usage,
    assistant,
    call,
    node_id,
    slot,
    system,
    tool_result,
    trajectory_id,
    tree_id,
    user,
)

ENV = "terminal"


class Grower:
    """Grows one attempt, node by node."""

    def __init__(self, run: str, task: str, index: int = 0, attempt: int = 0, opening: str = "Do it.") -> None:
        self.run, self.task, self.index, self.attempt = run, task, index, attempt
        self.tree, self.slot = tree_id(run, task), slot(index, attempt)
        self.id = trajectory_id(run, task, index, attempt)
        self.nodes: list[Node] = []
        self.turns = 0
        self.began = time.time()
        self.add(Author.ENVIRONMENT, system("You work in a terminal."), shared=True)
        self.add(Author.ENVIRONMENT, user(opening), shared=True)

    def add(self, author: Author, message: Message, *, shared: bool = False, **fields: object) -> Node:
        """One more node at the end."""
        parent = self.nodes[-1].id if self.nodes else None
        place = "" if shared else self.slot
        node = Node(
            id=node_id(self.tree, parent, author, message, None, place),
            run_id=self.run,
            tree_id=self.tree,
            parent_id=parent,
            depth=len(self.nodes),
            author=author,
            message=message,
            slot=place,
            started=time.time(),
            **fields,  # type: ignore[arg-type]
        )
        self.nodes.append(node)
        return node

    def turn(self, command: str = "", output: str = "", text: str = "") -> list[Node]:
        """One turn: a command and what it printed."""
        self.turns += 1
        made = call("session_run", {"command": command or f"echo {self.turns}"}, f"c{self.turns}")
        usage = Usage(prompt_tokens=100, completion_tokens=10, usd=0.001)
        action = self.add(Author.POLICY, assistant(text or f"step {self.turns}", made), model="m", usage=usage)
        answer = self.add(Author.ENVIRONMENT, tool_result(made.id, output or f"printed {self.turns}", "session_run"))
        return [action, answer]

    def end(self, score: float = 1.0, safety: float | None = None, **fields: object) -> Trajectory:
        """The record of its end."""
        return Trajectory(
            id=self.id,
            run_id=self.run,
            tree_id=self.tree,
            task_id=self.task,
            env=ENV,
            index=self.index,
            attempt=self.attempt,
            seed=1,
            leaf_id=self.nodes[-1].id,
            outcome=Outcome(status=Status.COMPLETED, score=score, success=score >= 1, safety=safety),
            turns=self.turns,
            usage=Usage(prompt_tokens=100 * self.turns, completion_tokens=10 * self.turns),
            started=self.began,
            finished=time.time(),
            **fields,  # type: ignore[arg-type]
        )


def run_record(id: str, *, finished: bool = False, **fields: object) -> Run:
    """A run of the terminal gym."""
    config = {"group": 1, "tasks": {"split": "test", "limit": 2}}
    ended = {"status": "finished", "finished": time.time()} if finished else {}
    return Run(id=id, envs=(ENV,), model="m", agent="tools", config=config, started=time.time(), **ended, **fields)  # type: ignore[arg-type]


def task_record(id: str) -> Task:
    """A task of the terminal gym."""
    return Task(id=id, env=ENV, instruction=f"Do {id}.")


def ended_run(id: str, tasks: Sequence[str], turns: int = 3) -> list[AnyRecord]:
    """A whole run that has ended."""
    records: list[AnyRecord] = [run_record(id, finished=True), *map(task_record, tasks)]
    for number, task in enumerate(tasks):
        grower = Grower(id, task)
        for _ in range(turns):
            grower.turn()
        records += [*grower.nodes, grower.end(score=float(number % 2), safety=1.0)]
    return records


def live_run(writer: Lake, turns: int = 2, *, run: str = "live", task: str = "terminal/a") -> Grower:
    """A run under way with one attempt."""
    grower = Grower(run, task)
    for _ in range(turns):
        grower.turn()
    writer.append_sync([run_record(run), task_record(task), *grower.nodes])
    return grower

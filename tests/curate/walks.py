"""Walks for tests, written as one would tell them: actions, what came back, what a person said."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from silva.curate.turn import Walk, read_walk
from silva.tree import (
    Author,
    Message,
    Node,
    Outcome,
    Status,
    Tool,
    ToolCall,
    assistant,
    call,
    node_id,
    tool_result,
    user,
)

STRING = {"type": "string"}
TOOLS = tuple(
    Tool(name=name, parameters={"type": "object", "properties": dict.fromkeys(given, STRING), "required": list(given)})
    for name, given in {
        "view_file": ("path",),
        "edit_file": ("path", "old", "new"),
        "create_file": ("path", "content"),
        "run_command": ("command",),
        "sleep": ("why",),
        "evaluate": (),
        "finish": (),
    }.items()
)


def act(name: str, **arguments: Any) -> Message:
    """An action with one call."""
    return assistant("", call(name, arguments))


def raw(name: str, arguments: str) -> Message:
    """An action whose arguments are written as they are."""
    return assistant("", ToolCall(id="x", name=name, arguments=arguments))


def nodes(
    *steps: Message | str | tuple[str, str],
    task: str = "Mend the program.",
    tools: Sequence[Tool] = TOOLS,
    tree: str = "tree",
    finish_reason: str = "stop",
) -> list[Node]:
    """A walk's nodes: a Message is an action, a text what came back, ("person", text) a person's words."""
    made: list[Node] = []

    def add(author: Author, message: Message, **more: Any) -> None:
        parent = made[-1].id if made else None
        force = tuple(tools) if not made else None
        made.append(
            Node(
                id=node_id(tree, parent, author, message, force, "0"),
                run_id="run",
                tree_id=tree,
                parent_id=parent,
                depth=len(made),
                author=author,
                message=message,
                tools=force,
                slot="0",
                **more,
            )
        )

    add(Author.ENVIRONMENT, user(task))
    for step in steps:
        if isinstance(step, Message):
            add(Author.POLICY, step, finish_reason=finish_reason)
        elif isinstance(step, tuple):
            add(Author.PERSON, user(step[1]))
        else:
            add(Author.ENVIRONMENT, tool_result("x", step))
    return made


def walk(*steps: Message | str | tuple[str, str], success: bool | None = None, **more: Any) -> Walk:
    """The walk itself; with `success`, of a trajectory that ended so."""
    outcome = None if success is None else Outcome(status=Status.COMPLETED, score=float(success), success=success)
    return read_walk(nodes(*steps, **more), outcome)

"""A draft: one conversation as a foreign file tells it, and the records it grows into.

    rows or steps ─▶ Draft (turns in order) ─▶ grow ─▶ Bundle (task, nodes, trajectory; every id derived)

Ids follow from content, so reading a file twice gives the same records. A conversation without a task of its own gets
one named by its prompt: rows that open with the same words stand on one tree, as rollouts of one task do.
"""

from __future__ import annotations

from typing import Any

import msgspec

from silva.tree.copies import turns_on
from silva.tree.formats.bundle import Bundle
from silva.tree.formats.errors import FormatError
from silva.tree.message import Json, Message, Record, Tool
from silva.tree.node import NO_USAGE, Author, Node, Tokens, Usage, digest, node_id
from silva.tree.outcome import Outcome, Status
from silva.tree.run import Run
from silva.tree.task import Task
from silva.tree.trajectory import Trajectory, slot, trajectory_id, tree_id

_encode = msgspec.msgpack.Encoder(order="deterministic").encode


class Turn(Record, frozen=True, kw_only=True):
    """What a file says of one message."""

    message: Message
    tools: tuple[Tool, ...] | None = None
    tokens: Tokens | None = None
    model: str = ""
    usage: Usage = NO_USAGE
    started: float = 0.0
    attributes: Json = msgspec.field(default_factory=dict[str, Any])

    @property
    def author(self) -> Author:
        """The policy writes assistant messages, the environment all others."""
        return Author.POLICY if self.message.role == "assistant" else Author.ENVIRONMENT


class Origin(Record, frozen=True, kw_only=True):
    """Where the conversation stands: its run, and its task and place in the group where the file says so."""

    run: Run
    task: Task | None = None
    index: int | None = None
    attempt: int = 0


class Draft(Record, frozen=True, kw_only=True):
    """One conversation to be grown. `usage` is the file's own total (None: the sum over turns)."""

    origin: Origin
    turns: tuple[Turn, ...]
    agent: str = ""
    model: str = ""
    usage: Usage | None = None
    attributes: Json = msgspec.field(default_factory=dict[str, Any])
    blobs: dict[str, bytes] = msgspec.field(default_factory=dict[str, bytes])


def grow(draft: Draft, name: str, line: int) -> Bundle:
    """The draft's records: one task, its walk, one trajectory. `name` and `line` say where it was read.

    Raises:
        FormatError: a text or number in it that no record can hold.
    """
    try:
        return _grown(draft)
    except (UnicodeEncodeError, OverflowError, TypeError, RecursionError) as error:
        raise FormatError(name, line, "", f"holds what a record cannot: {error}") from error


def _grown(draft: Draft) -> Bundle:
    run, turns = draft.origin.run, draft.turns
    task = draft.origin.task or prompted(turns)
    content = digest(_encode((turns, draft.agent, draft.model, draft.attributes)))
    # 31 bits of the content: a place in the group that needs no count of what else the run already holds.
    index = int(content[:8], 16) >> 1 if draft.origin.index is None else draft.origin.index
    tree, place = tree_id(run.id, task.id), slot(index, draft.origin.attempt)
    nodes: list[Node] = []
    parent: str | None = None
    sampled = False
    usage = NO_USAGE
    for depth, turn in enumerate(turns):
        sampled = sampled or turn.author is Author.POLICY
        own_slot = place if sampled else ""
        node = Node(
            id=node_id(tree, parent, turn.author, turn.message, turn.tools, own_slot),
            run_id=run.id,
            tree_id=tree,
            parent_id=parent,
            depth=depth,
            author=turn.author,
            message=turn.message,
            slot=own_slot,
            tools=turn.tools,
            tokens=turn.tokens,
            model=turn.model,
            usage=turn.usage,
            started=turn.started,
            attributes=turn.attributes,
        )
        nodes.append(node)
        parent = node.id
        usage = usage + turn.usage
    own = draft.origin.index is not None
    trajectory = Trajectory(
        id=trajectory_id(run.id, task.id, index, draft.origin.attempt) if own else digest("imported", tree, content),
        run_id=run.id,
        tree_id=tree,
        task_id=task.id,
        env=task.env,
        index=index,
        attempt=draft.origin.attempt,
        seed=0,
        leaf_id=parent,
        outcome=Outcome(status=Status.COMPLETED),
        agent=draft.agent,
        model=draft.model,
        turns=len(turns_on(nodes)),
        usage=usage if draft.usage is None else draft.usage,
        started=next((turn.started for turn in turns if turn.started), 0.0),
        attributes=draft.attributes,
    )
    return Bundle(run=run, tasks=(task,), trajectories=(trajectory,), nodes=tuple(nodes), blobs=draft.blobs)


def prompted(turns: tuple[Turn, ...]) -> Task:
    """The task of a conversation that names none: its id follows from what was said before the first sampled turn."""
    prompt: list[bytes] = []
    for turn in turns:
        if turn.author is Author.POLICY:
            break
        prompt.append(_encode((turn.message, turn.tools)))
    asked = next((turn.message.text for turn in turns if turn.message.role == "user"), "")
    return Task(id=f"imported/{digest(*prompt)}", env="imported", instruction=asked)

"""A message graph as a foreign file tells it, and the records it grows into.

    Vertex … (each names its parent by place) ─▶ Rollout ─▶ grow_graph ─▶ Bundle (task, nodes, one trajectory)

A draft is one straight conversation; here messages may branch (a retry, a compacted context, a sub-agent), the author
may be another than the role says, and the file tells how the rollout ended. Ids follow from content, as a draft's do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from silva.tree.copies import turns_on
from silva.tree.formats.bundle import Bundle
from silva.tree.formats.draft import Draft, Origin, Turn, grow
from silva.tree.formats.errors import FormatError
from silva.tree.message import Json, Record
from silva.tree.node import NO_USAGE, Author, Node, Usage, digest, node_id
from silva.tree.outcome import Outcome, Status
from silva.tree.supervision import Supervision
from silva.tree.task import Task
from silva.tree.trajectory import Trajectory, slot, trajectory_id, tree_id

_encode = msgspec.msgpack.Encoder(order="deterministic").encode


class Vertex(Record, frozen=True, kw_only=True):
    """One message of the graph. `parent` is the place of an earlier vertex (None: it opens a conversation).

    `masked` says why the file keeps the turn out of the loss ("": it does not).
    """

    turn: Turn
    parent: int | None = None
    author: Author = Author.ENVIRONMENT
    finish_reason: str = ""
    reward: float | None = None
    policy_version: str = ""
    masked: str = ""


class Rollout(Record, frozen=True, kw_only=True):
    """One rollout to be grown. `leaf` is the place of the vertex its main conversation ends in (None: no message).

    `identity` is the file's own name of the rollout: two of equal words stay two. `usage` None is the sum over turns.
    `judge` names the format as the source of masks.
    """

    origin: Origin
    vertices: tuple[Vertex, ...]
    leaf: int | None
    outcome: Outcome = Outcome(status=Status.COMPLETED)
    reward: float = 0.0
    identity: str = ""
    agent: str = ""
    model: str = ""
    judge: str = ""
    usage: Usage | None = None
    started: float = 0.0
    finished: float = 0.0
    attributes: Json = msgspec.field(default_factory=dict[str, Any])
    blobs: dict[str, bytes] = msgspec.field(default_factory=dict[str, bytes])


def straight(turns: Sequence[Vertex]) -> tuple[Vertex, ...]:
    """The vertices, each the parent of the next."""
    return tuple(
        msgspec.structs.replace(vertex, parent=place - 1 if place else None) for place, vertex in enumerate(turns)
    )


def grow_graph(rollout: Rollout, name: str, line: int) -> Bundle:
    """The rollout's records. `name` and `line` say where it was read.

    Raises:
        FormatError: a text or number in it that no record can hold.
    """
    try:
        return _grown(rollout, name, line)
    except (UnicodeEncodeError, OverflowError, TypeError, RecursionError) as error:
        raise FormatError(name, line, "", f"holds what a record cannot: {error}") from error


def _grown(rollout: Rollout, name: str, line: int) -> Bundle:
    origin = rollout.origin
    task = origin.task or _task(rollout, name, line)
    content = digest(rollout.identity, _encode((rollout.vertices, rollout.agent, rollout.model, rollout.attributes)))
    # 31 bits of the content: a place in the group that needs no count of what else the run already holds.
    index = int(content[:8], 16) >> 1 if origin.index is None else origin.index
    tree, place = tree_id(origin.run.id, task.id), slot(index, origin.attempt)
    nodes = _nodes(rollout, tree, place)
    leaf = None if rollout.leaf is None else nodes[rollout.leaf].id
    usage = NO_USAGE
    for node in nodes:
        usage = usage + node.usage
    own = trajectory_id(origin.run.id, task.id, index, origin.attempt)
    trajectory = Trajectory(
        id=digest("imported", tree, content) if rollout.identity or origin.index is None else own,
        run_id=origin.run.id,
        tree_id=tree,
        task_id=task.id,
        env=task.env,
        index=index,
        attempt=origin.attempt,
        seed=0,
        leaf_id=leaf,
        outcome=rollout.outcome,
        agent=rollout.agent,
        model=rollout.model,
        turns=len(turns_on(nodes)),
        reward=rollout.reward or 0.0,
        usage=_settled(usage if rollout.usage is None else rollout.usage),
        started=rollout.started or next((node.started for node in nodes if node.started), 0.0),
        finished=rollout.finished or 0.0,
        attributes=rollout.attributes,
    )
    masks = tuple(
        Supervision(
            id=digest("supervision", node.id, rollout.judge, vertex.masked),
            node_id=node.id,
            run_id=origin.run.id,
            verdict="mask",
            source="rule",
            by=rollout.judge,
            reason=vertex.masked,
        )
        for vertex, node in zip(rollout.vertices, nodes, strict=True)
        if vertex.masked
    )
    return Bundle(
        run=origin.run,
        tasks=(task,),
        trajectories=(trajectory,),
        nodes=nodes,
        supervisions=masks,
        blobs=rollout.blobs,
    )


def _nodes(rollout: Rollout, tree: str, place: str) -> tuple[Node, ...]:
    nodes: list[Node] = []
    taken: set[str] = set()
    for number, vertex in enumerate(rollout.vertices):
        parent = None if vertex.parent is None else nodes[vertex.parent]
        turn = vertex.turn
        below = vertex.author is Author.POLICY or (parent is not None and parent.slot != "")
        own_slot = place if below else ""
        own = node_id(tree, parent.id if parent else None, vertex.author, turn.message, turn.tools, own_slot)
        if own in taken:  # the same words twice under one parent: two samples stay two branches
            own = digest(own, str(number))
        taken.add(own)
        nodes.append(
            Node(
                id=own,
                run_id=rollout.origin.run.id,
                tree_id=tree,
                parent_id=parent.id if parent else None,
                depth=parent.depth + 1 if parent else 0,
                author=vertex.author,
                message=turn.message,
                slot=own_slot,
                tools=turn.tools,
                tokens=turn.tokens,
                model=turn.model,
                policy_version=vertex.policy_version,
                finish_reason=vertex.finish_reason,
                reward=vertex.reward,
                usage=_settled(turn.usage),
                started=turn.started or 0.0,
                attributes=turn.attributes,
            )
        )
    return tuple(nodes)


def _settled(usage: Usage) -> Usage:
    """The usage with zeros that encode alike, wherever they were read (a default is left out by identity)."""
    if usage == NO_USAGE:
        return NO_USAGE
    floats = ("usd", "model_seconds", "env_seconds", "silva_seconds")
    return msgspec.structs.replace(usage, **{name: getattr(usage, name) or 0.0 for name in floats})


def _task(rollout: Rollout, name: str, line: int) -> Task:
    """A task named by the prompt, as a draft of the same words has it."""
    prompt: list[Turn] = []
    for vertex in rollout.vertices:
        if vertex.author is Author.POLICY:
            break
        prompt.append(vertex.turn)
    return grow(Draft(origin=Origin(run=rollout.origin.run), turns=tuple(prompt)), name, line).tasks[0]

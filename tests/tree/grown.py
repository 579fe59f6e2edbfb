"""Strategies: random messages, records, trees and bundles, as a run might have grown them."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from hypothesis import strategies as st

from silva.tree import (
    Author,
    Boundary,
    Failure,
    ImagePart,
    Lineage,
    Message,
    Node,
    Outcome,
    Risk,
    Run,
    Status,
    Supervision,
    Task,
    TextPart,
    ThinkingPart,
    Tokens,
    Tool,
    ToolCall,
    Trajectory,
    Usage,
    digest,
    node_id,
    slot,
    trajectory_id,
    tree_id,
)
from silva.tree.formats import Bundle

texts = st.one_of(
    st.sampled_from(["", "hello", "ein\nzwei", "line\u2028separator", "\x85", '{"a": 1}', "混合 🙂", "\x00"]),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=12),
)
names = st.text(st.sampled_from("abcdef_"), min_size=1, max_size=8)
floats = st.floats(allow_nan=False, allow_infinity=False)
times = st.one_of(st.just(0.0), st.floats(1.6e9, 1.9e9))
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | floats | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=6,
)
objects = st.dictionaries(names, json_values, max_size=3)

images = st.builds(
    ImagePart,
    hash=st.integers(0, 20).map(lambda n: digest(str(n)) * 2),
    media_type=st.sampled_from(["image/png", "image/jpeg", "image/webp", "image/svg+xml"]),
    width=st.none() | st.integers(1, 4000),
    height=st.none() | st.integers(1, 4000),
)
parts = st.one_of(
    st.builds(TextPart, text=texts),
    st.builds(ThinkingPart, text=texts, signature=st.none() | texts),
    images,
)
raw_arguments = st.one_of(
    objects.map(lambda value: json.dumps(value, ensure_ascii=False)),
    objects.map(lambda value: json.dumps(value, separators=(",", ":"))),
    st.sampled_from(['{"a": 1', "", "[1]", '{"a": NaN}', '{"_raw": "x"}', '{"n": 1e999}', '{"n": 9' + 20 * "9" + "}"]),
)
call_ids = st.one_of(names, st.just("call_1"))
code = st.fixed_dictionaries({"language": st.sampled_from(["bash", "python", "klingon"]), "content": texts})
calls = st.one_of(
    st.builds(ToolCall, id=call_ids, name=names, arguments=raw_arguments),
    st.builds(ToolCall, id=call_ids, name=st.just("code_action"), arguments=code.map(json.dumps)),
)
messages = st.builds(
    Message,
    role=st.sampled_from(["system", "user", "assistant", "tool"]),
    parts=st.lists(parts, max_size=3).map(tuple),
    tool_calls=st.lists(calls, max_size=2).map(tuple),
    tool_call_id=st.none() | st.sampled_from(["call_1", "zz"]),
    name=st.none() | names,
)
tools = st.builds(Tool, name=names, description=texts, parameters=objects)
toolsets = st.none() | st.lists(tools, max_size=2).map(tuple)
risks = st.builds(Risk, kind=names, severity=st.floats(0, 1), by=names, evidence=texts)
usages = st.builds(
    Usage,
    prompt_tokens=st.integers(0, 10**6),
    completion_tokens=st.integers(0, 10**6),
    cached_tokens=st.integers(0, 10**6),
    usd=st.floats(0, 100),
    model_seconds=st.floats(0, 1e4),
    env_seconds=st.floats(0, 1e4),
    silva_seconds=st.floats(0, 1e4),
)


@st.composite
def tokens(draw: Any) -> Tokens:
    ids = draw(st.lists(st.integers(0, 150_000), max_size=8))
    sampled = draw(st.integers(0, len(ids)))
    logprobs = draw(st.lists(st.floats(-50, 0), min_size=sampled, max_size=sampled)) if draw(st.booleans()) else []
    return Tokens(ids=tuple(ids), sampled=sampled, logprobs=tuple(logprobs))


outcomes = st.builds(
    Outcome,
    status=st.sampled_from(Status),
    score=st.none() | st.floats(0, 1),
    success=st.none() | st.booleans(),
    safety=st.none() | st.floats(0, 1),
    failure=st.none()
    | st.builds(Failure, boundary=st.sampled_from(Boundary), code=names, message=texts, retryable=st.booleans()),
    metrics=st.dictionaries(names, floats, max_size=2),
)
tasks = st.builds(
    Task, id=names, env=names, instruction=texts, split=names, data=objects, tags=st.lists(names, max_size=2).map(tuple)
)
lineages = st.builds(Lineage, code=names, config=names, parents=st.lists(names, max_size=2).map(tuple))
runs = st.builds(
    Run,
    id=names,
    command=names,
    envs=st.lists(names, max_size=2).map(tuple),
    model=names,
    agent=names,
    seed=st.integers(0, 2**31),
    config=objects,
    lineage=lineages,
    status=names,
    started=times,
    finished=times,
    summary=objects,
)
verdicts = st.sampled_from(["keep", "mask", "good", "bad", "score", "note"])


def supervision(run_id: str, node: str) -> st.SearchStrategy[Supervision]:
    return st.builds(
        Supervision,
        id=st.uuids().map(str),
        node_id=st.just(node),
        run_id=st.just(run_id),
        verdict=verdicts,
        source=st.sampled_from(["rule", "model", "person"]),
        by=names,
        reason=texts,
        value=st.none() | floats,
        at=times,
        attributes=objects,
    )


@st.composite
def node_at(draw: Any, run_id: str, task_id: str, parent: Node | None, place: str) -> Node:
    """A node under `parent`; what is derived is derived as the engine does it."""
    tree = tree_id(run_id, task_id)
    message = draw(messages)
    author = Author.POLICY if message.role == "assistant" else draw(st.sampled_from(Author))
    toolset = draw(toolsets)
    attributes = draw(objects)
    if draw(st.integers(0, 9)) == 0:
        attributes = {**attributes, "tokens": draw(st.sampled_from(["restart", "completion"]))}
    return Node(
        id=node_id(tree, parent.id if parent else None, author, message, toolset, place),
        run_id=run_id,
        tree_id=tree,
        parent_id=parent.id if parent else None,
        depth=parent.depth + 1 if parent else 0,
        author=author,
        message=message,
        slot=place,
        tools=toolset,
        tokens=draw(st.none() | tokens()),
        model=draw(st.sampled_from(["", "m", "n"])),
        policy_version=draw(st.sampled_from(["", "v1"])),
        finish_reason=draw(st.sampled_from(["", "stop"])),
        reward=draw(st.none() | floats),
        usage=draw(usages),
        risks=tuple(draw(st.lists(risks, max_size=1))),
        snapshot_id=draw(st.sampled_from(["", "snap"])),
        started=draw(times),
        attributes=attributes,
    )


@st.composite
def trees(draw: Any, run_id: str = "run", task_id: str = "task", most: int = 9) -> list[Node]:
    """Nodes of one tree, parents before children, with branches."""
    nodes: dict[str, Node] = {}
    for place in range(draw(st.integers(1, most))):
        known = list(nodes.values())
        parent = draw(st.sampled_from(known)) if known else None
        node = draw(node_at(run_id, task_id, parent, slot(place, 0) if place else ""))
        nodes.setdefault(node.id, node)
    return list(nodes.values())


@st.composite
def bundles(draw: Any) -> Bundle:
    """One run: tasks, trees with branches, trajectories (some without a leaf), judgements, and loose ends."""
    run = draw(runs)
    own_tasks = draw(st.lists(tasks, max_size=2, unique_by=lambda task: task.id))
    nodes: list[Node] = []
    trajectories: list[Trajectory] = []
    for task in own_tasks:
        grown = draw(trees(run.id, task.id, most=6))
        nodes += grown
        for index in range(draw(st.integers(0, 2))):
            leaf = draw(st.none() | st.sampled_from(grown))
            attempt = draw(st.integers(0, 1))
            trajectories.append(
                Trajectory(
                    id=trajectory_id(run.id, task.id, index, attempt),
                    run_id=run.id,
                    tree_id=tree_id(run.id, task.id),
                    task_id=task.id,
                    env=task.env,
                    index=index,
                    attempt=attempt,
                    seed=draw(st.integers(0, 2**31)),
                    leaf_id=leaf.id if leaf else None,
                    outcome=draw(outcomes),
                    agent=draw(names),
                    model=draw(names),
                    policy_version=draw(names),
                    turns=draw(st.integers(0, 9)),
                    reward=draw(floats),
                    usage=draw(usages),
                    started=draw(times),
                    finished=draw(times),
                    superseded=draw(st.booleans()),
                    attributes=draw(objects),
                )
            )
    about = [node.id for node in nodes] + ["node-that-is-elsewhere"]
    judged = draw(st.lists(st.sampled_from(about).flatmap(lambda node: supervision(run.id, node)), max_size=3))
    return Bundle(
        run=run,
        tasks=tuple(own_tasks),
        trajectories=tuple(trajectories),
        nodes=tuple(nodes),
        supervisions=tuple(judged),
    )


def contents(bundle: Bundle) -> dict[str, Any]:
    """The bundle's records by id, in a shape that shows the difference when two are compared."""
    return {
        record.id + "/" + type(record).__name__: msgspec.to_builtins(record)
        for record in (bundle.run, *bundle.tasks, *bundle.trajectories, *bundle.nodes, *bundle.supervisions)
    }

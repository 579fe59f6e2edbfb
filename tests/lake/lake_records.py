"""Small trees for the lake's tests, and any record at all for hypothesis."""

from __future__ import annotations

import os
import sys
import types
import typing
from enum import StrEnum
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import strategies as st

from silva.lake.frames import MAGIC, entry, scan
from silva.lake.segment import segments
from silva.tree import (
    Author,
    Node,
    Outcome,
    Status,
    Task,
    Tokens,
    Trajectory,
    assistant,
    call,
    node_id,
    trajectory_id,
    tree_id,
    user,
)


def environment() -> dict[str, str]:
    """Of a process that uses this file."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}


def held(folder: Path) -> list[str]:
    """The ids of what a journal's segments hold, in order."""
    return [
        entry(payload).id
        for path in segments(folder).values()
        for payload in scan(path.read_bytes(), len(MAGIC)).payloads
    ]


def episode(number: int, turns: int = 6, run: str = "run", index: int = 0) -> tuple[list[Node], Trajectory]:
    """The nodes and the trajectory of one attempt; the same for the same arguments."""
    task = f"env/{number}"
    tree = tree_id(run, task)
    nodes: list[Node] = []
    parent: str | None = None
    for depth in range(turns):
        shared = depth == 0
        author = Author.ENVIRONMENT if depth % 2 == 0 else Author.POLICY
        message = (
            user(f"task {number} turn {depth}")
            if depth % 2 == 0
            else assistant(f"reply {index} of {number}", call("look", {"at": depth}))
        )
        slot = "" if shared else f"{index}.0"
        tokens = Tokens(ids=(1, 2, 3), sampled=2, logprobs=(-0.1, -0.25)) if author is Author.POLICY else None
        node = Node(
            id=node_id(tree, parent, author, message, None, slot),
            run_id=run,
            tree_id=tree,
            parent_id=parent,
            depth=depth,
            author=author,
            message=message,
            slot=slot,
            tokens=tokens,
        )
        nodes.append(node)
        parent = node.id
    return nodes, Trajectory(
        id=trajectory_id(run, task, index, 0),
        run_id=run,
        tree_id=tree,
        task_id=task,
        env="even" if number % 2 == 0 else "odd",
        index=index,
        attempt=0,
        seed=number,
        leaf_id=parent,
        outcome=Outcome(status=Status.COMPLETED, score=(number % 4) / 4),
    )


def task(number: int) -> Task:
    """A task."""
    return Task(id=f"env/{number}", env="even" if number % 2 == 0 else "odd", instruction=f"do {number}")


_TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)
_INTEGER = st.integers(-(1 << 63), (1 << 64) - 1)
_FLOAT = st.floats(allow_nan=False)
_JSON = st.recursive(
    st.none() | st.booleans() | _INTEGER | _FLOAT | _TEXT | st.binary(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=3),
    max_leaves=6,
)


def anything(kind: Any) -> st.SearchStrategy[Any]:
    """Any value of a type that records are made of, at its extremes too."""
    origin, given = typing.get_origin(kind), typing.get_args(kind)
    if kind is str:
        return _TEXT
    if kind is bytes:
        return st.binary(max_size=20)
    if kind is bool:
        return st.booleans()
    if kind is int:
        return _INTEGER
    if kind is float:
        return _FLOAT
    if kind is types.NoneType:
        return st.none()
    if kind is Any:
        return _JSON
    if origin is typing.Literal:
        return st.sampled_from(given)
    if origin in (typing.Union, types.UnionType):
        return st.one_of(*(anything(each) for each in given))
    if origin is tuple:
        return st.lists(anything(given[0]), max_size=3).map(tuple)
    if origin is dict:
        return st.dictionaries(_TEXT, anything(given[1]), max_size=3)
    if kind is Tokens:
        return st.lists(_FLOAT, max_size=3).flatmap(_tokens)
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return st.sampled_from(list(kind))
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return st.builds(kind, **{f.name: anything(f.type) for f in msgspec.structs.fields(kind)})
    raise TypeError(f"no strategy for {kind}")


def _tokens(logprobs: list[float]) -> st.SearchStrategy[Tokens]:
    extra = st.lists(_INTEGER | st.integers(0, 50_000), min_size=len(logprobs), max_size=len(logprobs) + 3)
    return extra.map(lambda ids: Tokens(ids=tuple(ids), sampled=len(logprobs), logprobs=tuple(logprobs)))

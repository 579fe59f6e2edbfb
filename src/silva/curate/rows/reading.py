"""Reading rows: what a source names, and one row after the other.

source ─▶ a file that is there ─▶ a table of objects, or trajectories in any format of `silva.tree.formats`
       ─▶ `select …` over the lake (a column `id` or `trajectory_id`) · a condition (`score >= 0.5`)
       ─▶ else the name of a run
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace as _replace

from silva.curate.rows.objects import MOST_BYTES, columns, objects
from silva.curate.rows.row import EXACT, Kind, Row
from silva.curate.rows.shape import conversation
from silva.errors import UsageError
from silva.lake import Lake
from silva.lake.where import parse
from silva.tree import Node, Trajectory, TreeError
from silva.tree.formats import FormatError, detect, find, salvage
from silva.tree.formats import read as read_format
from silva.tree.formats.bundle import Bundle, walk
from silva.tree.formats.messages import EXTENSION, read_value
from silva.tree.formats.salvage import mended

_SAMPLE = 65536
_exact = msgspec.json.Decoder(Row).decode
_CONDITION = re.compile(r"[<>=()]|\b(is|in|contains)\b")


class Reading:
    """The rows of a source, read while they are asked for; `notes` says what has dropped out so far, and why.

    A reading can be gone through once. `source` is what was asked for, `count` how many rows were given.
    """

    def __init__(self, source: str, rows: Iterator[Row | str]) -> None:
        self.source = source
        self.count = 0
        self.notes: list[str] = []
        self._rows = rows

    def __iter__(self) -> Iterator[Row]:
        """Raises UsageError at the end where the source holds no row that can be read."""
        for each in self._rows:
            if isinstance(each, str):
                self.notes.append(each)
                continue
            self.count += 1
            yield each
        if not self.count:
            first = f": {self.notes[0]}" if self.notes else ""
            raise UsageError(f"{self.source}: holds no row that can be read{first}")


def read(source: str, *, lake: str | None = None, where: str | None = None, limit: int | None = None) -> Reading:
    """The rows that a source names.

    Args:
        source: a file, `select …` over the lake, a condition on its trajectories, or a run.
        lake: the lake's folder or URL, for what is no file.
        where: which trajectories of the lake, besides.
        limit: the most rows.

    Raises:
        UsageError: the source names nothing, or nothing that can be read.
    """
    path = Path(source)
    if path.is_file():
        if where is not None:
            raise UsageError(f"{source}: a condition is for trajectories of a lake; this is a file")
        rows = _file(path)
    elif path.suffix in (".jsonl", ".json", ".parquet", ".csv", ".tsv"):
        raise UsageError(f"{source}: there is no such file")
    elif lake is None:
        raise UsageError(f"{source}: there is no such file; for a run or a query name its --lake")
    else:
        opened = Lake.open(lake, mode="read")
        rows = _walks(opened, _named(opened, source, where))
    return Reading(source, _first(rows, limit))


def _first(rows: Iterator[Row | str], limit: int | None) -> Iterator[Row | str]:
    given = 0
    for each in rows:
        if limit is not None and given >= limit:
            return
        given += isinstance(each, Row)
        yield each


def _named(lake: Lake, source: str, where: str | None) -> list[Trajectory]:
    condition = parse(where) if where else None
    if source.lstrip().lower().startswith(("select ", "with ")):
        table = lake.sql(source)
        column = next((name for name in ("trajectory_id", "id") if name in table.column_names), None)
        if column is None:
            raise UsageError(f"query: give a column id or trajectory_id, not {', '.join(table.column_names)}")
        wanted = set(table.column(column).to_pylist())
        found = [each for each in lake.trajectories(where=condition) if each.id in wanted]
    elif _CONDITION.search(source):
        both = parse(source) if where is None else parse(f"({source}) and ({where})")
        found = lake.trajectories(where=both)
    elif lake.run(source) is None and not lake.trajectories(run_id=source, limit=1):
        raise UsageError(f"{source}: there is no such file, and lake {lake.location} has no such run")
    else:
        found = lake.trajectories(run_id=source, where=condition)
    return sorted(found, key=lambda each: (each.run_id, each.tree_id, each.index, each.attempt, each.id))


def _walks(lake: Lake, trajectories: Sequence[Trajectory]) -> Iterator[Row | str]:
    trees = lake.trees(each.tree_id for each in trajectories if each.leaf_id is not None)
    for each in trajectories:
        if each.leaf_id is None:
            yield f"trajectory {each.id}: it broke before its first turn"
            continue
        tree = next(trees)
        try:
            nodes = tuple(tree.walk(each.leaf_id))
        except TreeError as fault:
            yield f"trajectory {each.id}: {fault}"
            continue
        yield Row(id=each.id, kind=Kind.TRAJECTORY, source=each.run_id, nodes=nodes, trajectory=each)


def _file(path: Path) -> Iterator[Row | str]:
    with path.open("rb") as file:
        sample = file.read(_SAMPLE)
    if not sample.strip():
        raise UsageError(f"{path}: is empty")
    try:
        name = detect(path.name, sample)
    except UsageError:
        name = "messages"
    if name == "parquet" and not {"kind", "record"} <= columns(path):
        name = "messages"
    if name in ("messages", "sharegpt"):
        return _table(path, name)
    return _bundles(path, name)


def _bundles(path: Path, name: str) -> Iterator[Row | str]:
    found = salvage(find(name), path.read_bytes(), path.name, path.stem)
    for note in found.notes:
        yield note.said
    for bundle in found.bundles:
        by_id = {node.id: node for node in bundle.nodes}
        for each in bundle.trajectories:
            nodes = walk(by_id, each.leaf_id)
            if nodes:
                yield Row(id=each.id, kind=Kind.TRAJECTORY, source=path.name, nodes=nodes, trajectory=each)


def _table(path: Path, name: str) -> Iterator[Row | str]:
    for number, value in objects(path):
        at = f"{path.name}:{number}"
        if isinstance(value, str):
            yield f"{at} {value}"
        elif isinstance(value, list):  # a conversation and nothing besides
            yield _row(at, {"messages": value}, path.name, number)
        elif not isinstance(value, dict):
            yield f"{at} is no object"
        elif name == "sharegpt" and "conversations" in value:
            yield _sharegpt(at, value, path.name, number)
        else:
            yield _row(at, value, path.name, number)


def row_of(value: Any, at: str) -> Row | str:
    """The row that one object of a table is, or why it is none. `at` says where it stands."""
    return _row(at, value, at, 1)


def _row(at: str, value: Any, name: str, line: int) -> Row | str:
    if isinstance(value.get(EXACT), str):
        try:
            return _exact(value[EXACT])
        except msgspec.DecodeError as fault:
            return f"{at} {EXACT}: {fault}"
    if EXTENSION in value and "messages" in value:  # what Silva wrote keeps its ids
        made = _of_bundles(at, lambda: [read_value(mended(value), name, line, "file", None)])
        return made if isinstance(made, str) else _replace(made, kind=Kind.TRAJECTORY)
    said = conversation(value)
    if isinstance(said, str):
        return f"{at} {said}"
    given = [said.messages] if said.rejected is None else [said.messages, said.rejected]
    tools = {"tools": said.data.pop("tools")} if said.data.get("tools") else {}
    made = _of_bundles(
        at, lambda: [read_value(mended({"messages": each, **tools}), name, line, "file", None) for each in given]
    )
    if isinstance(made, str):
        return made
    return _replace(made, kind=said.kind, label=said.label, data=said.data, trajectory=None)


def _sharegpt(at: str, value: Any, name: str, line: int) -> Row | str:
    data = {key: each for key, each in value.items() if key not in ("conversations", "label", "chosen", "rejected")}
    text = json.dumps(mended(value))
    made = _of_bundles(at, lambda: [each for each in read_format("sharegpt", [text], file=name, run="file")])
    return made if isinstance(made, str) else _replace(made, label=value.get("label"), data=data, trajectory=None)


def _of_bundles(at: str, bundles: Callable[[], list[Bundle]]) -> Row | str:
    try:
        found = bundles()
    except FormatError as fault:
        return str(fault)
    walks: list[tuple[Trajectory, tuple[Node, ...]]] = []
    for bundle in found:
        by_id = {node.id: node for node in bundle.nodes}
        walks += [(each, nodes) for each in bundle.trajectories if (nodes := walk(by_id, each.leaf_id))]
    if not walks or not any(node.message.parts or node.message.tool_calls for node in walks[0][1]):
        return f"{at} has no text"
    pair = len(walks) > 1
    return Row(
        id=at,
        kind=Kind.PREFERENCE if pair else Kind.MESSAGES,
        source=at,
        nodes=walks[0][1],
        rejected=walks[1][1] if pair else (),
        trajectory=walks[0][0],
    )


__all__ = ["MOST_BYTES", "Reading", "read"]

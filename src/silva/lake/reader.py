"""Reading records: the tables and the tail as one, each id once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import groupby, repeat
from typing import Any

import pyarrow as pa
import pyarrow.compute as compute

from silva.errors import StoreError, UsageError
from silva.lake.column import Table
from silva.lake.columns import NODES
from silva.lake.filters import Filter, field, literal
from silva.lake.matching import matching
from silva.lake.rows import build, key_of, read
from silva.lake.tables import Tables
from silva.lake.tail import Tail
from silva.lake.tiers import Tiers
from silva.tree import Node, Trajectory, Tree, TreeError

_BATCH = 2_000
_TREES, _NODES = 16, 20_000
"""So many trees are read at once at first, then as many as hold about so many nodes, by those before, and at most four
times as many: a question to a table takes longer than reading what it answers; but trees may be large."""


class Reader:
    """Reads records by equality of columns and by filter. Looks at the tail first, then at the tables, then at those of
    the cold tier, where there is one; of what is in both, as while it is moved, the nearer counts."""

    def __init__(self, tables: Tables, tail: Tail | None, tiers: Tiers | None = None) -> None:
        self._tables, self._tail, self._tiers = tables, tail, tiers

    @property
    def _cold(self) -> Reader | None:
        cold = None if self._tiers is None else self._tiers.cold()
        return None if cold is None else Reader(cold, None)

    def records(self, table: Table, where: Filter | None, limit: int | None, **equal: str | None) -> list[Any]:
        """The table's records whose columns equal `equal` (None: any) and that meet `where`.

        Raises:
            UsageError: a condition names no column, or its value does not fit.
        """
        found = self._near(table, where, limit, **equal)
        cold = self._cold
        if cold is None or (limit is not None and len(found) >= limit):
            return found
        known = {key_of(table, record) for record in found}
        more = cold.records(table, where, None if limit is None else limit + len(known), **equal)
        more = [record for record in more if key_of(table, record) not in known]
        if table.last_wins and more and where is not None:
            # The nearer record of a key may not meet the condition that an older one meets.
            newer = self._near(table, field("id").is_in(sorted({record.id for record in more})), None)
            later = {key_of(table, record) for record in newer}
            more = [record for record in more if key_of(table, record) not in later]
        return [*found, *more][:limit]

    def _near(self, table: Table, where: Filter | None, limit: int | None, **equal: str | None) -> list[Any]:
        given = {name: value for name, value in equal.items() if value is not None}
        condition: Filter | None = where
        for name, value in given.items():
            condition = (field(name) == value) if condition is None else condition & (field(name) == value)
        sql = condition.sql(table) if condition is not None else None
        fresh = self._fresh(table, given, where)
        if table.last_wins:
            later = self._tail.records(table) if self._tail is not None else []
            replaced = {key_of(table, record) for record in later}
        else:
            # Asked before the rows are read: what is compacted in between is then seen twice, never missed.
            known = stored_ids(self._tables, table, [record.id for record in fresh])
            fresh = [record for record in fresh if record.id not in known]
            replaced = {record.id for record in fresh}
        rows = self._stored(table, sql, None if limit is None else limit + len(replaced))
        stored: list[Any] = [] if rows is None else read(table, rows, self._tables.leave_out)
        if replaced:
            stored = [record for record in stored if key_of(table, record) not in replaced]
        found = stored + fresh
        return found if limit is None else found[:limit]

    def _stored(self, table: Table, sql: str | None, limit: int | None) -> pa.Table | None:
        stored = self._tables.open(table.name) if sql is not None else None
        if sql is None or stored is None:
            return self._tables.select(table.name, limit=limit)
        there = set(stored.schema.names)  # asked once: each time it is a call to the table
        lacking = [each for each in table.schema if each.name not in there]
        if not any(re.search(rf"\b{each.name}\b", sql) for each in lacking):
            return self._tables.select(table.name, sql, limit=limit)
        rows = self._tables.select(table.name)  # of an older version, which had no such column
        if rows is None:
            return None
        whole = rows
        for each in lacking:
            whole = whole.append_column(each.name, pa.nulls(rows.num_rows, each.type))
        return matching(whole, sql).select(rows.column_names)[:limit]

    def one(self, table: Table, prefix: str, where: str) -> Any:
        """The record of that id, or the only one whose id begins so.

        Raises:
            UsageError: there is none, or there are several.
        """
        exact = self.records(table, None, None, id=prefix)
        if exact:
            return exact[0]
        noun = table.record.__name__.lower()
        if not prefix:
            raise UsageError(f"lake {where}: give the id of a {noun}, or its beginning")
        between = (field("id") >= prefix) & (field("id") < prefix + chr(0x10FFFF))
        found = self.records(table, between, 4)
        if not found:
            raise UsageError(f"lake {where}: has no {noun} {prefix}; see `silva trees list`")
        if len(found) > 1:
            some = ", ".join(sorted(record.id for record in found)[:3])
            raise UsageError(
                f"lake {where}: {prefix} begins the ids of several {noun} records ({some} …); give more of it"
            )
        return found[0]

    def walk(self, trajectory: Trajectory, where: str) -> tuple[Node, ...]:
        """The trajectory's nodes, root first.

        Raises:
            StoreError: a node of the walk is missing.
        """
        if trajectory.leaf_id is None:
            return ()
        # Nearly always the walk is made of shared nodes and its own; where a branch was grown from another attempt,
        # the rest of the tree is needed.
        own = self._attempt(trajectory.tree_id, ("", trajectory.slot))
        found = _path(own, trajectory.leaf_id) or _path(
            self.records(NODES, None, None, tree_id=trajectory.tree_id), trajectory.leaf_id
        )
        if found is None:
            gap = _gap(self.records(NODES, None, None, tree_id=trajectory.tree_id), trajectory.leaf_id)
            raise StoreError(
                f"lake {where}: trajectory {trajectory.id[:12]} of run {trajectory.run_id} cannot be shown: {gap}; "
                "restore the table of nodes from a copy or play it again (`silva trees list --json` has how it ended)"
            )
        return found

    def walks(self, trajectories: Iterable[Trajectory], where: str) -> Iterator[tuple[Node, ...]]:
        """The nodes of each trajectory, root first, in their order; the trees of several are read at once.

        Raises:
            StoreError: a node of such a tree is missing.
        """
        asked = list(trajectories)
        trees = self.trees((each.tree_id for each in asked if each.leaf_id is not None), where)
        for each in asked:
            if each.leaf_id is None:
                yield ()
                continue
            tree = next(trees)
            yield tree.walk(each.leaf_id) if each.leaf_id in tree else self.walk(each, where)

    def tree(self, tree_id: str, where: str) -> Tree:
        """The tree of that id.

        Raises:
            UsageError: there is none.
            StoreError: nodes of it are missing.
        """
        return self._tree(tree_id, self.records(NODES, None, None, tree_id=tree_id), where)

    def trees(self, tree_ids: Iterable[str], where: str) -> Iterator[Tree]:
        """The tree of each id, in their order; some are read at once, and one that is asked for several times in a row
        is read once.

        Raises:
            UsageError, StoreError: as `tree`.
        """
        asked = [(name, len(list(times))) for name, times in groupby(tree_ids)]
        at, most = 0, _TREES
        while at < len(asked):
            several = asked[at : at + most]
            of_tree: dict[str, list[Node]] = {}
            nodes = self.records(NODES, field("tree_id").is_in({name for name, _ in several}), None)
            for node in nodes:
                of_tree.setdefault(node.tree_id, []).append(node)
            for name, times in several:
                yield from repeat(self._tree(name, of_tree.get(name, []), where), times)
            at += len(several)
            most = max(1, min(4 * len(several), _NODES * len(several) // max(1, len(nodes))))

    def _tree(self, tree_id: str, nodes: list[Node], where: str) -> Tree:
        if not nodes:
            raise UsageError(f"lake {where}: has no tree {tree_id}; `silva lake doctor` says what is gone")
        try:
            return Tree(nodes)
        except TreeError as error:
            raise StoreError(f"lake {where}: tree {tree_id}: {error}; `silva lake doctor` says more") from error

    def _attempt(self, tree_id: str, slots: tuple[str, str]) -> list[Node]:
        """Nodes of a tree in some slots; one that is being compacted or moved right now may come twice."""
        near, cold = self._attempt_near(tree_id, slots), self._cold
        return near if cold is None else [*cold._attempt(tree_id, slots), *near]

    def _attempt_near(self, tree_id: str, slots: tuple[str, str]) -> list[Node]:
        fresh = [node for node in self._fresh(NODES, {"tree_id": tree_id}, None) if node.slot in slots]
        rows = self._tables.select(NODES.name, (field("tree_id") == tree_id).sql(NODES))
        if rows is None:
            return fresh
        # Lance finds the tree by its index; sorting out the siblings takes it longer than handing them over.
        mine = compute.is_in(rows.column("slot"), value_set=pa.array(slots))  # pyright: ignore[reportAttributeAccessIssue]
        return [
            *fresh,
            *read(NODES, rows.filter(mine), self._tables.leave_out),
        ]  # of two records of an id the stored one counts

    def _fresh(self, table: Table, given: dict[str, str], where: Filter | None) -> list[Any]:
        if self._tail is None:
            return []
        self._tail.refresh()
        getters = [(column.get, value) for name, value in given.items() if (column := table.column(name)) is not None]
        fresh = [r for r in self._tail.records(table) if all(get(r) == value for get, value in getters)]
        if where is None or not fresh:
            return fresh
        rows: pa.Table = build(table, fresh, [-1] * len(fresh))
        ids = set(matching(rows, where.sql(table)).column("id").to_pylist())
        return [record for record in fresh if record.id in ids]


def stored_ids(tables: Tables, table: Table, ids: list[str]) -> set[str]:
    """Which of the ids the table already holds."""
    found: set[str] = set()
    for start in range(0, len(ids), _BATCH):
        some = ", ".join(literal(each) for each in ids[start : start + _BATCH])
        rows = tables.select(table.name, f"id in ({some})", columns=["id"])
        if rows is None:
            return found
        found.update(rows.column("id").to_pylist())
    return found


def _gap(nodes: list[Node], leaf_id: str) -> str:
    """What a walk lacks."""
    by_id = {node.id: node for node in nodes}
    found, current = 0, leaf_id
    while (node := by_id.get(current)) is not None and node.parent_id is not None and found < len(by_id):
        found, current = found + 1, node.parent_id
    return f"node {current[:12]} of its walk is not here, of its tree {len(by_id)} nodes are"


def _path(nodes: list[Node], leaf_id: str) -> tuple[Node, ...] | None:
    by_id = {node.id: node for node in nodes}
    path: list[Node] = []
    current: str | None = leaf_id
    while current is not None:
        node = by_id.get(current)
        if node is None or len(path) > len(by_id):
            return None
        path.append(node)
        current = node.parent_id
    return tuple(reversed(path))

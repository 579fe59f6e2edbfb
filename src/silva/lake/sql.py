"""SQL over the lake: DuckDB reads the tables and the tail, and nothing else.

A query is first parsed by DuckDB without being run: only one SELECT is let through, naming only the lake's tables and
harmless table functions. It then runs in a database of its own whose configuration is locked: no files, no network, no
extensions, no variables of this process.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset as ds

from silva.errors import UsageError
from silva.lake.columns import TABLES
from silva.lake.matching import locked
from silva.lake.tables import Tables
from silva.lake.tail import Tail

if TYPE_CHECKING:
    import duckdb

BATCH = 65_536
"""Rows Lance hands over at once. At its own 1,024, handing over took seven times as long as reading."""
_UNREADABLE = "LanceError(IO)"
"""What Lance says of a file that it cannot read."""
_FUNCTIONS = {"unnest", "range", "generate_series", "generate_subscripts", "json_each", "json_tree"}


class _LanceDataset(ds.Dataset):
    """A Lance table as the pyarrow dataset DuckDB scans: columns are read by Lance, conditions are met by pyarrow."""

    def __init__(self, table: Any) -> None:  # the base class has no initialiser to call
        self._table = table
        self._schema = table.schema

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    def scanner(self, columns: list[str] | None = None, filter: Any = None, **_: Any) -> ds.Scanner:
        wanted = list(columns) if columns else ["id"]
        read = wanted
        if filter is not None:
            # An expression does not tell its columns; a name too many costs a read, one too few is an error.
            words = set(re.findall(r"\w+", str(filter)))
            read = wanted + [name for name in self._schema.names if name in words and name not in wanted]
        batches = self._table.search().select(read).to_batches(BATCH)
        return ds.Scanner.from_batches(batches, columns=wanted, filter=filter)


def query(text: str, tables: Tables, tail: Tail | None, cold: Tables | None = None) -> pa.Table:
    """Run one SELECT over the lake's tables, those of its cold tier among them.

    Raises:
        UsageError: it is no single SELECT, names something else than the lake's tables, or DuckDB refuses it.
    """
    import duckdb

    with closing(locked()) as connection:
        used = _used(connection, text)
        for whole in (True, False):
            try:
                for name in used:
                    connection.execute(f"drop view if exists _{name}_near")
                    _register(connection, name, tables, tail, whole)
                    if cold is not None:
                        _widen(connection, name, cold, whole)
                return connection.sql(text).to_arrow_table()
            except duckdb.Error as error:
                if not whole or _UNREADABLE not in str(error):
                    raise UsageError(f"sql: {_line(error)}") from error
    raise AssertionError("either was answered or refused")


def _used(connection: duckdb.DuckDBPyConnection, text: str) -> list[str]:
    rows = connection.execute("select json_serialize_sql(?)", [text]).fetchall()
    parsed: dict[str, Any] = json.loads(rows[0][0])
    if parsed.get("error"):
        raise UsageError(f"sql: {' '.join(str(parsed.get('error_message', 'cannot be read')).split())}")
    if len(parsed["statements"]) != 1:
        raise UsageError("sql: give one SELECT statement")
    named = {str(key.get("key")).lower() for key in _entries(parsed)}
    used: list[str] = []
    for node in _nodes(parsed):
        if node.get("type") == "TABLE_FUNCTION":
            function = str((node.get("function") or {}).get("function_name")).lower()
            if function not in _FUNCTIONS:
                raise UsageError(f"sql: the table function {function} is not allowed; query {', '.join(TABLES)}")
        elif node.get("type") == "BASE_TABLE":
            name = str(node.get("table_name")).lower()
            if name in TABLES and not node.get("schema_name"):
                used.append(name)
            elif name not in named:
                raise UsageError(f"sql: there is no table {name}; query {', '.join(TABLES)}")
        elif node.get("type") == "SHOW_REF":
            used += [name for name in TABLES if name in json.dumps(node)]
    return sorted(set(used))


def _nodes(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
        for inner in value.values():
            yield from _nodes(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _nodes(inner)


def _entries(parsed: Any) -> Iterator[dict[str, Any]]:
    for node in _nodes(parsed):
        yield from (node.get("cte_map") or {}).get("map", [])


def _register(connection: duckdb.DuckDBPyConnection, name: str, tables: Tables, tail: Tail | None, whole: bool) -> None:
    """Make a table known. `whole`: as Lance reads it, every row; else without those that cannot be read."""
    spec = TABLES[name]
    columns = ", ".join(f'"{column.name}"' for column in spec.columns)
    table = tables.snapshot(name)
    rows = spec.schema.empty_table() if tail is None else tail.rows(spec)
    stored, fresh = f"_{name}_stored", f"_{name}_fresh"
    if table is None:
        connection.register(fresh, rows)
        connection.execute(f"create or replace view {name} as select {columns} from {fresh}")
        return
    connection.register(stored, _LanceDataset(table) if whole else tables.select(name))
    present = set(table.schema.names)
    kept = ", ".join(f'"{c.name}"' if c.name in present else f'null as "{c.name}"' for c in spec.columns)
    if not rows.num_rows:
        connection.execute(f"create or replace view {name} as select {kept} from {stored}")
        return
    connection.register(fresh, rows)
    old, new = f"select {kept} from {stored}", f"select {columns} from {fresh}"
    keys = ", ".join(spec.key)
    known = ", ".join("id" if key == "id" else f"coalesce({key}, '')" if key in present else "''" for key in spec.key)
    if spec.last_wins:
        old += f" where ({known}) not in (select ({keys}) from {fresh})"
    else:
        new += f" where ({keys}) not in (select ({known}) from {stored})"
    connection.execute(f"create or replace view {name} as {old} union all {new}")


def _widen(connection: duckdb.DuckDBPyConnection, name: str, cold: Tables, whole: bool) -> None:
    """Have a table that is known hold what the cold tier has as well; of what is in both, the nearer counts."""
    spec, table = TABLES[name], cold.snapshot(name)
    if table is None:
        return
    connection.execute(f"alter view {name} rename to _{name}_near")
    connection.register(f"_{name}_cold", _LanceDataset(table) if whole else cold.select(name))
    present = set(table.schema.names)
    kept = ", ".join(f'"{c.name}"' if c.name in present else f'null as "{c.name}"' for c in spec.columns)
    mine = ", ".join(f"coalesce({key}, '')" for key in spec.key)
    connection.execute(
        f"create or replace view {name} as select * from _{name}_near union all select {kept} from _{name}_cold "
        f"where ({mine}) not in (select ({mine}) from _{name}_near)"
    )


def _line(error: Exception) -> str:
    return " ".join(str(error).split("\n\nLINE")[0].split())[:300]

"""DuckDB with nothing but what it is handed: no files, no network, no extensions, no variables of this process."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    import duckdb

_LOCKED = (
    "set enable_external_access = false",
    "set python_enable_replacements = false",
    "set autoinstall_known_extensions = false",
    "set autoload_known_extensions = false",
    "set allow_community_extensions = false",
    "set lock_configuration = true",
)


def locked() -> duckdb.DuckDBPyConnection:
    """A database in memory whose configuration is locked."""
    import duckdb

    connection = duckdb.connect(":memory:")
    for statement in _LOCKED:
        connection.execute(statement)
    return connection


def matching(rows: pa.Table, condition: str) -> pa.Table:
    """The rows that meet a condition of `silva.lake.filters`."""
    with closing(locked()) as connection:
        connection.register("rows", rows)
        return connection.sql(f"select * from rows where {condition}").to_arrow_table()

"""The objects of a table: JSON lines, one JSON array, Parquet, CSV, one after the other and never the whole file."""

from __future__ import annotations

import csv
import importlib
import json
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from silva.errors import UsageError
from silva.tree import Json

MOST_BYTES = 64 << 20
"""Longest line of a table that is read, in bytes."""
_WHOLE = 512 << 20
"""Largest JSON file that is read as one array, in bytes."""

Place = tuple[int, Any]
"""A number from 1, and the object there; a text instead says why there is none."""


def objects(path: Path) -> Iterator[Place]:
    """The objects of a table, by its ending: `.parquet`, `.csv` or `.tsv`, and JSON (lines or an array) for the rest.

    Raises:
        UsageError: the file cannot be read at all.
    """
    ending = path.suffix.lower()
    if ending == ".parquet":
        yield from _parquet(path)
    elif ending in (".csv", ".tsv"):
        yield from _separated(path, "\t" if ending == ".tsv" else ",")
    else:
        yield from _json(path)


def columns(path: Path) -> frozenset[str]:
    """The names of a Parquet file's columns.

    Raises:
        UsageError: it cannot be read.
    """
    return frozenset(_opened(path).schema_arrow.names)


def _opened(path: Path) -> Any:
    parquet: Any = importlib.import_module("pyarrow.parquet")
    try:
        return parquet.ParquetFile(path)
    except (OSError, ValueError) as fault:  # pyarrow's errors are of these kinds
        raise UsageError(f"{path}: it cannot be read as Parquet ({str(fault).splitlines()[0]})") from fault


def _parquet(path: Path) -> Iterator[Place]:
    batches = _opened(path).iter_batches(batch_size=1024)
    try:
        yield from enumerate(chain.from_iterable(each.to_pylist() for each in batches), 1)
    except (OSError, ValueError) as fault:
        raise UsageError(f"{path}: a part of it cannot be read ({str(fault).splitlines()[0]})") from fault


def _separated(path: Path, delimiter: str) -> Iterator[Place]:
    csv.field_size_limit(MOST_BYTES)
    try:
        with path.open(encoding="utf-8-sig", newline="") as lines:
            for number, value in enumerate(csv.DictReader(lines, delimiter=delimiter), 1):
                surplus: Any = value.pop(None, None)  # pyright: ignore[reportArgumentType, reportCallIssue]
                yield number, f"has {len(surplus)} fields more than the header" if surplus else dict(value)
    except (UnicodeDecodeError, csv.Error) as fault:
        raise UsageError(f"{path}: it cannot be read as CSV ({fault})") from fault


def _json(path: Path) -> Iterator[Place]:
    with path.open("rb") as file:
        head = file.read(4096).removeprefix(b"\xef\xbb\xbf")
        if b"\0" in head:
            raise UsageError(f"{path}: it is binary; a table is JSON lines, JSON, CSV or Parquet")
        if head.lstrip()[:1] == b"[":
            yield from _array(path)
            return
        file.seek(0)
        number = 0
        while line := file.readline(MOST_BYTES + 1):
            number += 1
            if len(line) > MOST_BYTES:
                while line and not line.endswith(b"\n"):
                    line = file.readline(MOST_BYTES)
                yield number, f"is longer than {MOST_BYTES >> 20} MB"
            elif line.strip():
                yield number, _value(line.removeprefix(b"\xef\xbb\xbf"))


def _array(path: Path) -> Iterator[Place]:
    if path.stat().st_size > _WHOLE:
        raise UsageError(f"{path}: an array of more than {_WHOLE >> 20} MB; write one object a line (jq -c '.[]')")
    try:
        values: Any = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as fault:
        raise UsageError(f"{path}: it is no JSON ({fault})") from fault
    yield from enumerate(values, 1)


def _value(line: bytes) -> Json | str:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as fault:
        return f"is not JSON ({fault})"
    return value if isinstance(value, dict) else "is no object"

"""Rows to a file: Parquet, or JSON lines, by the file's ending."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from silva.train.whole_file import Whole

IDS = pa.list_(pa.int32())
FLOATS = pa.list_(pa.float32())


def write_table(path: Path, rows: Sequence[dict[str, Any]], schema: pa.Schema, *, force: bool) -> int:
    """Write rows with the schema's columns; return how many.

    Raises:
        UsageError: the file is there and `force` is not said, or it cannot be written.
    """
    with Whole(path, force) as file:
        if path.suffix == ".jsonl":
            file.writelines(_line(row) + b"\n" for row in rows)
        else:
            pq.write_table(pa.Table.from_pylist(list(rows), schema), file)
    return len(rows)


_line = msgspec.json.Encoder().encode

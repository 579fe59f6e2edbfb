"""Scores as a file: one line a row, with its id, and a number and a note of each scorer."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa

from silva.curate.value.sample import Samples
from silva.curate.value.scoring import Scores
from silva.errors import UsageError
from silva.lake.durable import refusals, write_whole

ENDINGS = (".parquet", ".jsonl")


def check_output(path: Path, *, force: bool) -> None:
    """See that a file can be written, before anything is computed.

    Raises:
        UsageError: it is there already, or its ending says nothing.
    """
    if path.suffix not in ENDINGS:
        raise UsageError(f"{path.name}: name a file that ends in {' or '.join(ENDINGS)}")
    if path.exists() and not force:
        raise UsageError(f"{path.name}: is there already; add --force to replace it")


def write_scores(path: Path, samples: Samples, scores: Mapping[str, Scores]) -> None:
    """Write scores, whole or not at all. A row without a score has null, and its note says why.

    Raises:
        StoreError: the disk refused.
    """
    columns: dict[str, pa.Array | pa.ChunkedArray] = {"id": samples.table.column("id")}
    for name, each in scores.items():
        columns[name] = pa.array(each.values, pa.float64(), mask=np.isnan(each.values))
        columns[f"{name}_note"] = pa.array([each.notes.get(place) for place in range(len(samples))], pa.string())
    write_table(path, pa.table(columns))


def write_table(path: Path, table: pa.Table) -> None:
    """Write a table by its ending, whole or not at all.

    Raises:
        StoreError: the disk refused.
    """
    with refusals(f"file {path.name}"):
        if path.suffix == ".parquet":
            import pyarrow.parquet as parquet

            sink = pa.BufferOutputStream()
            parquet.write_table(table, sink)
            write_whole(path, sink.getvalue().to_pybytes())
        else:
            encode = msgspec.json.encode
            write_whole(
                path, b"".join(encode(row) + b"\n" for batch in table.to_batches() for row in batch.to_pylist())
            )

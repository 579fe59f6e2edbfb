"""A selection as files: the rows that stay, each with why it is there, and what the choice was made of.

NAME.jsonl | NAME.parquet          the rows, with `selected` beside their own fields
NAME.selection.json                configuration, identities of the scorers, counts, clusters and their quotas
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from silva.curate.rows.writing import object_of
from silva.curate.value.config import SelectConfig
from silva.curate.value.sample import Samples
from silva.curate.value.scoring import Scores
from silva.curate.value.selection.selecting import Selection
from silva.curate.value.source import whole_table
from silva.curate.value.table import write_table
from silva.lake.durable import refusals, write_whole
from silva.tree import Json

SELECTED = "selected"
"""The field that says why a row is there; `before` in it is what an earlier selection said."""

_encode = msgspec.json.Encoder(order="deterministic").encode


def provenance(selection: Selection, config: SelectConfig, scores: Mapping[str, Scores], place: int) -> Json:
    """Why the row at a place was kept: its scores, its rank, its cluster and that cluster's quota."""
    values = {name: float(each.values[place]) for name, each in scores.items()}
    told = {name: value for name, value in values.items() if not math.isnan(value)}
    return {"scores": told, **selection.why(place, config)}


def facts(samples: Samples, selection: Selection, config: SelectConfig, scores: Mapping[str, Scores]) -> Json:
    """What a selection was made of and what came of it."""
    return {
        "config": config.model_dump(mode="json"),
        "rows": len(samples),
        "kept": len(selection.kept),
        "fates": dict(Counter(selection.fate)),
        "scorers": {name: each.identity for name, each in scores.items()},
        "clusters": [
            {"size": size, "quota": quota} for size, quota in zip(selection.size, selection.quota, strict=True)
        ],
    }


def write_selection(
    path: Path, samples: Samples, selection: Selection, config: SelectConfig, scores: Mapping[str, Scores]
) -> None:
    """Write the rows that stay, in their order, and the facts beside them; each whole or not at all.

    Raises:
        SilvaError: the disk refused, or the source has changed since it was read.
    """
    kept = [int(place) for place in selection.kept]
    why = [provenance(selection, config, scores, place) for place in kept]
    if not samples.rows:
        table = whole_table(config, len(samples)).take(pa.array(kept, pa.int64()))
        if SELECTED in table.column_names:
            table = table.drop_columns([SELECTED])
        write_table(path, table.append_column(SELECTED, pa.array([_encode(each).decode() for each in why])))
    else:
        write_objects(path, [_told(object_of(samples.rows[at]), each) for at, each in zip(kept, why, strict=True)])
    write_facts(path, facts(samples, selection, config, scores))


def write_facts(path: Path, told: Json) -> None:
    """Write what a selection was made of beside its file."""
    with refusals(f"file {path.name}"):
        write_whole(path.with_suffix(".selection.json"), msgspec.json.format(_encode(told), indent=2) + b"\n")


def write_fates(path: Path, samples: Samples, selection: Selection) -> None:
    """Write what became of every row: its id, `fate`, its rank and, of a copy, whose."""
    ids: list[Any] = samples.table.column("id").to_pylist()
    rows = [
        {"id": name, "fate": fate, "rank": int(rank) or None, "copy_of": ids[of] if of >= 0 else None}
        for name, fate, rank, of in zip(ids, selection.fate, selection.rank, selection.copy_of.tolist(), strict=True)
    ]
    write_objects(path, rows)


def write_objects(path: Path, objects: list[Json]) -> None:
    """Write objects by the file's ending."""
    if path.suffix == ".parquet":
        write_table(
            path, pa.Table.from_pylist([{key: _plain(value) for key, value in each.items()} for each in objects])
        )
        return
    with refusals(f"file {path.name}"):
        write_whole(path, b"".join(_encode(each) + b"\n" for each in objects))


def _told(row: Json, why: Json) -> Json:
    before = row.get(SELECTED)
    return row | {SELECTED: why if before is None else why | {"before": before}}


def _plain(value: Any) -> Any:
    """Objects of many shapes have no column of their own in Parquet: they are written as JSON text, but for
    messages."""
    return _encode(value).decode() if isinstance(value, dict) else value

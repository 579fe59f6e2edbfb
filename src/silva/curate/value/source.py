"""From a source's name to its samples: rows one by one, or columns as they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from silva.curate.audit.keeping import kept_verdicts
from silva.curate.rows import read
from silva.curate.value.config import ScoreConfig
from silva.curate.value.sample import Samples, of_columns
from silva.curate.value.scorer import scorers
from silva.errors import UsageError
from silva.lake import Lake


def samples_of(config: ScoreConfig) -> tuple[Samples, list[str]]:
    """The samples that a configuration names, and what of the source could not be read.

    Raises:
        SilvaError: the source names nothing, or nothing that can be read.
    """
    if not config.source:
        raise UsageError("name what to read: a file, a run, or a query of the lake")
    if config.columns.answer:
        table = column_table(config)
        return of_columns(table, config.columns.answer, config.columns.question, config.columns.id), []
    reading = read(config.source, lake=config.lake, where=config.where or None, limit=config.limit)
    samples = Samples.of_rows(reading)
    known = scorers()
    if not Path(config.source).is_file() and any(known[name].heeds for name in config.scorers if name in known):
        with Lake.open(config.lake, mode="read") as lake:
            for run in {row.trajectory.run_id for row in samples.rows if row.trajectory is not None}:
                samples.verdicts = {**samples.verdicts, **kept_verdicts(lake, run)}
    return samples, reading.notes


def column_table(config: ScoreConfig) -> pa.Table:
    """The columns of a Parquet file, or of a Lance table (a folder that ends in .lance), as DuckDB or Lance reads them.

    Raises:
        UsageError: there is no such file, no such column, or no row.
    """
    path = Path(config.source)
    wanted = [
        each for each in dict.fromkeys((config.columns.id, config.columns.question, config.columns.answer)) if each
    ]
    if config.where:
        raise UsageError("where: a condition is for trajectories of a lake; select the columns' rows before")
    if path.suffix == ".lance" and path.is_dir():
        table = _lance(path, wanted, config.limit)
    elif path.suffix == ".parquet" and path.is_file():
        table = _parquet(path, wanted, config.limit)
    else:
        raise UsageError(
            f"{config.source}: columns are read of a .parquet file or a folder NAME.lance, which is not here"
        )
    if not table.num_rows:
        raise UsageError(f"{config.source}: holds no row")
    return table


def whole_table(config: ScoreConfig, count: int) -> pa.Table:
    """All columns of the same rows.

    Raises:
        UsageError: the file has changed meanwhile, or cannot be read.
    """
    path = Path(config.source)
    table = _lance(path, [], config.limit) if path.suffix == ".lance" else _parquet(path, [], config.limit)
    if table.num_rows != count:
        raise UsageError(f"{path}: had {count} rows and now has {table.num_rows}; do not write it meanwhile")
    return table


def _parquet(path: Path, wanted: list[str], limit: int | None) -> pa.Table:
    import pyarrow.parquet as parquet

    try:
        names = parquet.read_schema(path).names
        _has(path, wanted, names)
        table = parquet.read_table(path, columns=wanted or None)
    except (OSError, pa.ArrowException) as fault:
        raise UsageError(f"{path}: it cannot be read as Parquet ({str(fault).splitlines()[0]})") from fault
    return table if limit is None else table.slice(0, limit)


def _lance(path: Path, wanted: list[str], limit: int | None) -> pa.Table:
    import lancedb

    try:
        opened: Any = lancedb.connect(str(path.parent)).open_table(path.stem)
        _has(path, wanted, opened.schema.names)
        search = opened.search().select(wanted or opened.schema.names).with_row_id(True)
        found = (search if limit is None else search.limit(limit)).to_arrow()
        return found.sort_by("_rowid").drop_columns(["_rowid"])  # the same order each time it is read
    except (OSError, ValueError, RuntimeError) as fault:
        raise UsageError(f"{path}: it cannot be read as a Lance table ({str(fault).splitlines()[0]})") from fault


def _has(path: Path, wanted: list[str], names: list[str]) -> None:
    for name in wanted:
        if name not in names:
            raise UsageError(f"{path}: there is no column {name!r}; there are {', '.join(names[:12])}")

"""A Lance table as Daft reads it, and columns that workers make of it.

    "daft" ─▶ processes on this machine · "daft:ray" ─▶ Ray as it is found · "daft:ray://HOST:PORT" ─▶ that cluster

daft 0.7.26 reads Lance through daft-lance 0.6.0 (without it `read_lance` is an ImportError) and wants pyarrow below 26;
both write what pylance 14 reads. `ray.data.write_lance` fails with that pylance and is not used.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa

from silva.curate.daft.work import Work
from silva.errors import MissingError, StoreError, UnreachableError, UsageError

ROW = "_rowid"
"""Lance's own number of a row, by which what comes back is put in order."""

INSTALL = "pip install 'silva[daft]'"


class Frame:
    """A table in parts.

    Args:
        table: a folder NAME.lance, or its address on an object store.
        on: see the module.
        workers: processes of each work on this machine; all cores if None.

    Raises:
        MissingError: Daft, or for Ray Ray, is not installed.
        UnreachableError: Ray's cluster does not answer.
        UsageError: there is no such table, or `on` says something else.
    """

    def __init__(self, table: str, on: str = "daft", workers: int | None = None) -> None:
        self.table = table
        self._daft = _daft(on)
        self._workers = workers or os.cpu_count() or 1
        if "://" not in table and not Path(table).is_dir():
            raise UsageError(f"{table}: there is no such Lance table; Daft reads folders NAME.lance")
        lance: Any = importlib.import_module("daft_lance")
        try:
            self._frame = lance.read_lance(table, default_scan_options={"with_row_id": True})
            self.columns: list[str] = [name for name in self._frame.column_names if name != ROW]
        except (OSError, ValueError, RuntimeError) as fault:
            raise UsageError(f"{table}: it cannot be read as a Lance table ({str(fault).splitlines()[0]})") from fault

    def check(self, named: Sequence[str]) -> None:
        """See that it has these columns.

        Raises:
            UsageError: one is missing.
        """
        for name in named:
            if name not in self.columns:
                raise UsageError(f"columns: there is no column {name!r}; there are {', '.join(self.columns[:12])}")

    def make(self, works: Mapping[str, Work], keep: Sequence[str] = (), limit: int | None = None) -> pa.Table:
        """The columns that works make, besides some of the table's own, in the table's order.

        Raises:
            UsageError: a column is missing.
        """
        named = [*keep, *(name for work in works.values() for name in work.reads)]
        self.check(named)
        frame = self._frame.select(ROW, *dict.fromkeys(named))
        frame = frame if limit is None else frame.limit(limit)
        for name, work in works.items():
            made = self._column(work, 1 / len(works))
            frame = frame.with_column(name, made(*(self._daft.col(each) for each in work.reads)))
        table = frame.select(ROW, *dict.fromkeys([*keep, *works])).to_arrow()
        return table.sort_by(ROW)

    def keep(self, rows: pa.Table, target: str) -> int:
        """Write the rows with these numbers, and the other columns of `rows` beside their own, as another table.

        Returns:
            How many there are in it.

        Raises:
            StoreError: it is there already, or cannot be written.
        """
        joined = self._daft.from_arrow(rows).join(self._frame, on=ROW, how="inner").sort(ROW)
        beside = [name for name in rows.column_names if name != ROW]
        try:
            joined.select(*(name for name in self.columns if name not in beside), *beside).write_lance(target)
        except (OSError, ValueError, RuntimeError) as fault:
            raise StoreError(f"{target}: it cannot be written ({str(fault).splitlines()[0]})") from fault
        return rows.num_rows

    def _column(self, work: Work, cpus: float) -> Any:
        """A work as Daft calls it: made once in each of some processes, and called with some rows.

        The works of one plan run side by side, so that one process of each shares a core: on Ray a plan whose processes
        ask for more cores than there are waits for ever.
        """
        daft = self._daft

        class Made:
            def __init__(self) -> None:
                self.work = work

            @daft.method.batch(return_dtype=daft.DataType.from_arrow_type(work.kind), batch_size=1024)
            def __call__(self, *columns: Any) -> Any:
                return self.work(*(each.to_pylist() for each in columns))

        return daft.cls(Made, cpus=cpus, use_process=True, max_concurrency=self._workers)()


@cache
def _daft(on: str) -> Any:
    kind, _, place = on.partition(":")
    if kind != "daft" or (place and place != "ray" and not place.startswith("ray://")):
        raise UsageError(f"on={on}: possible are here, daft, daft:ray, daft:ray://HOST:PORT")
    os.environ.setdefault("DAFT_ANALYTICS_ENABLED", "0")  # nothing of what is done here goes to anybody
    os.environ.setdefault("DO_NOT_TRACK", "true")
    os.environ.setdefault("DAFT_PROGRESS_BAR", "0")
    try:
        daft: Any = importlib.import_module("daft")
        importlib.import_module("daft_lance")
    except ImportError as error:
        raise MissingError(f"on={on}: needs Daft and daft-lance: {INSTALL}") from error
    if place:
        # Ray gives the workers that it starts niceness 15, so that any other work of the machine keeps them waiting.
        os.environ.setdefault("RAY_worker_niceness", "0")
        try:
            daft.set_runner_ray(None if place == "ray" else place)
        except ImportError as error:
            raise MissingError(f"on={on}: needs Ray: pip install 'silva[ray]'") from error
        except ConnectionError as error:
            said = " ".join(str(error).split())
            raise UnreachableError(f"on={on}: {said}; is it up? RAY_ADDRESS=local begins one of its own") from error
    return daft

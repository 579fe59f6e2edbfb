"""Where a plan begins: rows of a run, a file or a query; trajectories by name; a data set's file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from msgspec import Meta

from silva.curate.rows import read
from silva.elf.artefact import Rows, Trajectories
from silva.elf.tool import Cost, Permission, tool
from silva.elf.tools.asking import Count, Where, reading
from silva.elf.work import Work
from silva.errors import UsageError
from silva.lake import default_location, parse
from silva.train.data.dataset import DataSet, dataset_file, read_dataset
from silva.train.data.entries import read_entries

_TOLD = 5
"""Notes of what dropped out that are kept; the rest is counted."""


@tool(Permission.READ, asks=("read row", "load row", "show row", "look row"), cost=Cost(seconds=1.0))
def read_rows(
    source: Annotated[str, Meta(min_length=1, description="a run, a file, SELECT …, or a condition on trajectories")],
    work: Work,
    where: Annotated[str, Meta(description="which trajectories of a run: score >= 0.5")] = "",
    count: Count = 0,
) -> Rows:
    """Read rows of a run, a file of any format, or a query over the lake."""
    found = read(source, lake=work.lake or default_location(), where=where or None, limit=count or None)
    rows = tuple(found)
    notes = tuple(found.notes[:_TOLD])
    if len(found.notes) > _TOLD:
        notes += (f"and {len(found.notes) - _TOLD} more that could not be read",)
    return Rows(rows=rows, notes=notes)


@tool(Permission.READ, asks=("choose trajectory", "pick trajectory"), cost=Cost(seconds=1.0))
def choose_trajectories(
    work: Work,
    runs: Annotated[tuple[str, ...], Meta(description="which runs; all of the lake when empty")] = (),
    where: Where = "",
    success: Annotated[bool, Meta(description="only those that succeeded")] = False,
    key: Annotated[str, Meta(description="what must stay together: task, question, tag, data.FIELD")] = "task",
    count: Count = 0,
) -> Trajectories:
    """Name trajectories of a lake as a data set."""
    with reading(work) as lake:
        entries = read_entries(lake, runs, key=key, where=parse(where) if where else None, success=success)
    kept = entries[:count] if count else entries
    return Trajectories(
        dataset=DataSet(part="chosen", entries=tuple(kept), made=f"elf {' '.join(runs)} {where}".strip())
    )


@tool(Permission.READ, asks=("read dataset", "load dataset"))
def read_set(path: Annotated[str, Meta(min_length=1, description="a file that silva data wrote")]) -> Trajectories:
    """Read a data set that was written before."""
    return Trajectories(dataset=read_dataset(dataset_file(Path(path))))


def path_of(text: str) -> Path:
    """A path that was named. Raises UsageError where it is no file."""
    path = Path(text)
    if not path.is_file():
        raise UsageError(f"{text}: there is no such file")
    return path

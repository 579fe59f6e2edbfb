"""A data set as others take it (`silva.curate.release`)."""

from __future__ import annotations

import shutil
from hashlib import sha256
from typing import Annotated

from msgspec import Meta

from silva.curate.release import ReleaseConfig, release
from silva.elf.artefact import File, Rows
from silva.elf.tool import Cost, tool
from silva.elf.tools.writing import write_rows
from silva.elf.work import Work


@tool(
    asks=(
        "release",
        "release dataset",
        "data card",
        "make release",
        "package dataset",
        "croissant",
        "huggingface dataset",
    ),
    cost=Cost(seconds=5.0, row_seconds=0.002),
)
def release_rows(
    rows: Rows,
    work: Work,
    licence: Annotated[str, Meta(min_length=1, description="an SPDX name: CC-BY-4.0, MIT; it is never guessed")],
    name: Annotated[str, Meta(description="of the data set")] = "release",
) -> File:
    """Write rows as a data set for others: Parquet, Lance, Croissant, a data card; refused where rows leak."""
    table = write_rows.call(rows=rows, work=work, form="jsonl", name=f"{name}-rows")
    folder = work.folder / name
    shutil.rmtree(folder, ignore_errors=True)  # of an attempt that was cut off: the folder is this step's own
    config = ReleaseConfig(name=name, licence=licence, parts={"train": table.path})  # pyright: ignore[reportAttributeAccessIssue]
    made = release(config, folder)
    digest = sha256((folder / "release.json").read_bytes()).hexdigest()
    return File(path=str(folder), format="release", count=len(rows), sha256=digest, notes=made.notes[:5])

"""A data set as others take it (`silva.curate.release`)."""

from __future__ import annotations

from silva.elf.artefact import File, Rows
from silva.elf.tool import Cost, tool
from silva.errors import MissingError

_MISSING = "the room silva.curate.release is not whole in this version"


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
    cost=Cost(seconds=5.0),
    missing=_MISSING,
)
def release_rows(rows: Rows) -> File:
    """Write rows as a data set for others: Parquet, Croissant, a data card."""
    raise MissingError(_MISSING)

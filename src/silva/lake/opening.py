"""Opening the lake that is meant where none is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from silva.lake.lake import Lake
from silva.lake.location import default_location


def open_lake(location: str | Path | None = None, mode: Literal["write", "read"] = "write", **settings: Any) -> Lake:
    """`Lake.open`, at the default location when none is given."""
    return Lake.open(location if location is not None else default_location(), mode, **settings)

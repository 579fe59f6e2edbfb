"""Stage `report`: every line's page, with what each round preferred and how often its verifier was right."""

from __future__ import annotations

from pathlib import Path

from silva.loops.kernel.loop import Loop
from silva.loops.kernel.shown import write_shown
from silva.loops.kernel.stage import Stage
from silva.loops.line import report
from silva.loops.sport.config import SportConfig
from silva.loops.sport.preferred import preferred
from silva.loops.sport.shown import pairs, searches, shown, tools
from silva.tree import Json

SHOWN = 12
"""Pairs that the page shows in words."""


def run(loop: Loop[SportConfig], stage: Stage) -> Json:
    """Write the page, and what it shows as data.

    Raises:
        UsageError, StoreError: one cannot be written.
    """
    write_shown(loop.folder, shown(loop))
    return {"file": str(write(loop).relative_to(loop.folder))}


def write(loop: Loop[SportConfig]) -> Path:
    """Write the report of a loop as far as it has come; return its file.

    Raises:
        UsageError: the file cannot be written.
        StoreError: the lake cannot be read.
    """
    search = loop.config.search
    values = {
        "sheets": [each for each in (searches(loop), pairs(loop), tools(loop)) if each.rows],
        "examples": preferred(loop, SHOWN),
        "candidates": search.candidates,
        "verifier": search.verifier,
        "begin": loop.config.begin,
    }
    more = report.Section(package="silva.loops.sport", template="preferred.html.j2", values=values)
    return report.write(loop, "SPORT", [more])

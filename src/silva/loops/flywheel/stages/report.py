"""Stage `report`: the page, and what it shows as data."""

from __future__ import annotations

from silva.loops.kernel.loop import Loop
from silva.loops.kernel.shown import write_shown
from silva.loops.kernel.stage import Stage
from silva.loops.line.config import LineConfig
from silva.loops.line.report import write
from silva.loops.line.shown import shown
from silva.tree import Json


def run(loop: Loop[LineConfig], stage: Stage) -> Json:
    """Write both.

    Raises:
        UsageError, StoreError: one cannot be written.
    """
    write_shown(loop.folder, shown(loop))
    return {"file": str(write(loop, "flywheel").relative_to(loop.folder))}

"""Stage `report`: the page."""

from __future__ import annotations

from silva.loops.kernel.loop import Loop
from silva.loops.kernel.stage import Stage
from silva.loops.line.config import LineConfig
from silva.loops.line.report import write
from silva.tree import Json


def run(loop: Loop[LineConfig], stage: Stage) -> Json:
    """Write the page.

    Raises:
        UsageError: it cannot be written.
    """
    return {"file": str(write(loop, "flywheel").relative_to(loop.folder))}

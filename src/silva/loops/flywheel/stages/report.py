"""Stage `report`: the page."""

from __future__ import annotations

from silva.loops.flywheel.loop import Loop
from silva.loops.flywheel.plan import Stage
from silva.loops.flywheel.report import write
from silva.tree import Json


def run(loop: Loop, stage: Stage) -> Json:
    """Write the page.

    Raises:
        UsageError: it cannot be written.
    """
    return {"file": str(write(loop).relative_to(loop.folder))}

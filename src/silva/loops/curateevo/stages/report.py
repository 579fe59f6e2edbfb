"""Stage `report`: the page, and what it shows as data."""

from __future__ import annotations

from silva.loops.curateevo.config import CurateEvoConfig
from silva.loops.curateevo.shown import shown, values
from silva.loops.kernel.loop import Loop
from silva.loops.kernel.shown import write_shown
from silva.loops.kernel.stage import Stage
from silva.loops.line import report
from silva.tree import Json


def run(loop: Loop[CurateEvoConfig], stage: Stage) -> Json:
    """Write both.

    Raises:
        UsageError, StoreError: one cannot be written.
    """
    write_shown(loop.folder, shown(loop))
    more = report.Section(package="silva.loops.curateevo", template="evolved.html.j2", values=values(loop))
    return {"file": str(report.write(loop, "CurateEvo", [more]).relative_to(loop.folder))}

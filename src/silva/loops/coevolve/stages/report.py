"""Stage `report`: every line's page with the loop's own figures, and the same as data (`report.json`)."""

from __future__ import annotations

from silva.loops.coevolve.config import CoEvolveConfig
from silva.loops.coevolve.shown import own, shown
from silva.loops.kernel.loop import Loop
from silva.loops.kernel.shown import write_shown
from silva.loops.kernel.stage import Stage
from silva.loops.line import report
from silva.loops.line.drawn import section
from silva.tree import Json


def run(loop: Loop[CoEvolveConfig], stage: Stage) -> Json:
    """Write both.

    Raises:
        UsageError: the page cannot be written, or `against` cannot be compared with.
        StoreError: the lake cannot be read, or the disk refused.
    """
    found = shown(loop)
    write_shown(loop.folder, found)
    page = report.write(loop, "CoEvolve", [section(own(loop))])
    return {"file": str(page.relative_to(loop.folder)), "tasks": len(found.tasks)}

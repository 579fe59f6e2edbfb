"""Stage `report`: the page."""

from __future__ import annotations

from silva.loops.apollo.apollo import ApolloLoop
from silva.loops.apollo.report import write
from silva.loops.flywheel.plan import Stage
from silva.tree import Json


def run(loop: ApolloLoop, stage: Stage) -> Json:
    """Write the page.

    Raises:
        UsageError: it cannot be written.
    """
    return {"file": str(write(loop).relative_to(loop.folder))}

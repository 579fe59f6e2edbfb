"""Stage `report`: the page."""

from __future__ import annotations

from silva.loops.apollo.config import ApolloConfig
from silva.loops.apollo.report import write
from silva.loops.kernel.loop import Loop
from silva.loops.kernel.stage import Stage
from silva.tree import Json


def run(loop: Loop[ApolloConfig], stage: Stage) -> Json:
    """Write the page.

    Raises:
        UsageError: it cannot be written.
    """
    return {"file": str(write(loop).relative_to(loop.folder))}

"""What a safety loop shows of itself: every line's figures, and safety under held-out attacks beside them."""

from __future__ import annotations

from silva.loops.kernel.loop import Loop
from silva.loops.kernel.shown import Shown
from silva.loops.line import shown as line
from silva.loops.safety.config import SafetyConfig


def shown(loop: Loop[SafetyConfig]) -> Shown:
    """What has come of the loop so far."""
    curve = line.rates(loop, "Safety on dev under held-out attacks by version", "guard", "safety")
    table = line.decisions(loop, "Decisions on safety under held-out attacks", "safety")
    own = Shown(curves=(curve,) if curve is not None else (), tables=(table,) if table.rows else ())
    return own.beside(line.shown(loop))

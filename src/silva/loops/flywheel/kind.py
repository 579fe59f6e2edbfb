"""The flywheel as a kind of loop."""

from __future__ import annotations

from silva.loops.flywheel.config import FlywheelConfig
from silva.loops.flywheel.plan import stages
from silva.loops.kernel.kind import Kind
from silva.loops.line.shown import shown
from silva.loops.line.stages import HOMES
from silva.loops.line.told import line, standing
from silva.loops.line.usable import usable

FLYWHEEL = Kind(
    name="flywheel",
    config=FlywheelConfig,
    plan=stages,
    stages={
        **HOMES,
        "select": "silva.loops.line.stages.select",
        "report": "silva.loops.flywheel.stages.report",
    },
    line=line,
    standing=standing,
    usable=usable,
    shown=shown,
)

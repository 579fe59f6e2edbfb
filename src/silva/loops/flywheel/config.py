"""What a flywheel is asked to do, typed. From a YAML or TOML file plus dotted overrides."""

from __future__ import annotations

from typing import Literal

from silva.loops.line.config import LineConfig


class FlywheelConfig(LineConfig):
    """One flywheel."""

    loop: Literal["flywheel"] = "flywheel"
    line: str = "flywheel"

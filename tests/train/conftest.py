"""What training's tests share with the gateway's: `under_load`."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "gateway"))

"""What tests of the loops share: the small weights of training's tests, the Ray cluster of rollouts'."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "train"))
sys.path.append(str(Path(__file__).parents[1] / "rollout"))

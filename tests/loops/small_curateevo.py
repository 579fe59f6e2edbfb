"""A small CurateEvo loop: the example with a policy that learns nothing much, within seconds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

EXAMPLES = Path(__file__).parents[2] / "examples" / "curateevo"


def curating(folder: Path, line: str = "depot", **changes: Any) -> dict[str, Any]:
    """The example with a policy that learns nothing much, within seconds."""
    said: dict[str, Any] = yaml.safe_load((EXAMPLES / "depot.yaml").read_text(encoding="utf-8"))
    tasks = {"limit": 120, "train": 0.5, "dev": 0.5, "test": 0.0}
    return {
        **said,
        "loop": "curateevo",
        "line": line,
        "folder": str(folder),
        "env": f"{EXAMPLES / 'depot.py'}:Depot",
        "policy": {
            **said["policy"],
            "tiny_tasks": 10,
            "shape": {"width": 32, "inner": 64, "layers": 1, "context": 512},
        },
        "tasks": tasks,
        "measure": {"seeds": 1, "dev": 4, "test": 4},
        "raw": {"play": [{"split": "log", "slips": 0.1, "limit": 40}]},
        "recipe": {"steps": 4, "batch": 4, "optimiser": {"learning_rate": 0.003}},
        "candidates": {"effect": 1, "efficiency": 1},
        "ablate": {"efficiency": True},
        "memory": {"shown": 1.0},
        **changes,
    }

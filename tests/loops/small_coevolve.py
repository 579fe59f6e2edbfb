"""A small CoEvolve loop with all kinds of stages: a tiny policy in boxes, and one growth of tasks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

BOXES = Path(__file__).parents[2] / "examples" / "coevolve" / "boxes.py"


def growing(folder: Path, line: str = "boxes") -> dict[str, Any]:
    """Little of everything: one round of the expert, two of the policy, one growth between them."""
    train = {"optimiser": {"learning_rate": 4e-3}, "batch": 8, "checkpoint_every": 20}
    return {
        "loop": "coevolve",
        "folder": str(folder),
        "line": line,
        "env": f"{BOXES}:Boxes",
        "policy": {
            "base": "tiny",
            "method": "full",
            "dtype": "float32",
            "tiny_tasks": 40,
            "shape": {"width": 64, "inner": 128, "layers": 2, "context": 512},
        },
        "tasks": {"limit": 80, "train": 0.8, "dev": 0.1, "test": 0.1},
        "play": {"agent": "react", "pool": 16, "max_tokens": 32, "budget": {"turns": 6}, "hosts": {"inline": True}},
        "measure": {"seeds": 1, "dev": 4, "test": 4},
        "judge": {"every": 3},
        "initial": 12,
        "grow": {
            "contexts": 8,
            "tasks": 6,
            "signals": {"forgetting": {}, "boundary": {}, "rare": {"least": 20, "share": 20}},
            "explore": {"rounds": 2, "steps": 5},
            "explorer": {"name": "policy", "options": {"share": 0.8}},
            "abstracter": {"name": "hindsight", "options": {"least": 1, "whole": True}},
            "written": 1,
            "attempts": 2,
            "admission": {"validation": {"least": 1}},
        },
        "rounds": [
            {"source": "expert", "algorithm": {"name": "sft"}, "steps": 70, **train},
            {
                **{"times": 2, "tasks": 8, "group": 4, "algorithm": {"name": "grpo"}, "steps": 1, **train, "batch": 2},
                "optimiser_state": "carried",
            },
        ],
        "threads": 1,
    }

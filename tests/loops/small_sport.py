"""A small SPORT loop with all kinds of stages: a policy that SFT has half taught to read a number off a question."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from small_flywheel import configuration

TRAIN = {"batch": 8, "checkpoint_every": 3, "optimiser": {"learning_rate": 5e-4, "warmup": 1}, "steps": 6}


def preferring(folder: Path, tasks: Path, line: str = "sums") -> dict[str, Any]:
    """The loop in `folder` over a file of `tasks`: SFT that leaves much to learn, a round of preferences, and an arm
    that imitates the picks."""
    said: dict[str, Any] = configuration(folder, tasks, line=line, seeds=2, played=12, steps=4, every=2)
    return said | {
        "loop": "sport",
        "tasks": {"file": str(tasks), "train": 0.6, "dev": 0.4, "test": 0.0},
        "search": {"candidates": 4, "verifier": "rules"},
        "check": {"pairs": 6, "by": "policy", "tries": 2},
        "rounds": [
            {**said["rounds"][0], "steps": 40},
            {"tasks": 12, "arm": "steps", **TRAIN},
            {"arm": "picks", "pairs_of": "steps", "algorithm": {"name": "sft"}, **TRAIN},
        ],
        "threads": 1,
    }

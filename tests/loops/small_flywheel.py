"""A small flywheel with all kinds of stages: a tiny policy learns to read a number off a question, within seconds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

COMMAND = "import sys; from silva.cli.loop import app; sys.exit(app(sys.argv[1:], standalone_mode=False) or 0)"
"""What `python -c` runs as `silva loop`, given `flywheel` and a configuration's file."""


def sums(file: Path, count: int) -> Path:
    """Write the tasks: so many sums of a number and nought."""
    rows = [
        {
            "id": f"sum/{n}",
            "env": "arithmetic",
            "instruction": f"{n} + 0 = ?",
            "split": "train",
            "data": {"numbers": [n, 0]},
        }
        for n in range(10, 10 + count)
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return file


def configuration(
    folder: Path, tasks: Path, *, line: str, seeds: int, played: int, steps: int, every: int
) -> dict[str, Any]:
    """The loop in `folder` over a file of `tasks`: a round of the expert's attempts, a round of the policy's.

    Args:
        folder: of the loop.
        tasks: a file of them, see `sums`.
        line: what its versions are called.
        seeds: attempts at a task when a version is measured.
        played: tasks the policy plays in its round.
        steps: it is trained for then.
        every: so many steps a checkpoint is written.
    """
    train = {"batch": 16, "checkpoint_every": every}
    return {
        "folder": str(folder),
        "line": line,
        "env": "arithmetic",
        "policy": {
            "base": "tiny",
            "method": "full",
            "dtype": "float32",
            "tiny_tasks": 20,
            "shape": {"width": 64, "inner": 128, "layers": 2, "context": 256},
        },
        "tasks": {"file": str(tasks), "train": 0.5, "dev": 0.25, "test": 0.25},
        "play": {"agent": "tools", "pool": 8, "max_tokens": 8},
        "measure": {"seeds": seeds},
        "rounds": [
            {"source": "expert", "optimiser": {"learning_rate": 5e-3}, "steps": 60, **train},
            {
                "source": "policy",
                "tasks": played,
                "group": 6,
                "algorithm": {"name": "grpo"},
                "optimiser": {"learning_rate": 2e-4},
                "steps": steps,
                **train,
            },
        ],
    }

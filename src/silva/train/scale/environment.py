"""This process's place among several, as torchrun, Slurm's scripts and others put it into the environment."""

from __future__ import annotations

import os

_NEEDED = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def placed() -> bool:
    """Whether a launcher started this process as one of several."""
    return all(os.environ.get(name) for name in _NEEDED) and int(os.environ["WORLD_SIZE"]) > 1


def leads() -> bool:
    """Whether this is the only process or the first of several."""
    return not placed() or os.environ["RANK"] == "0"

"""Opening the engine a configuration names, with the libraries it needs checked first."""

from __future__ import annotations

import importlib.util
import os
from typing import TYPE_CHECKING

from silva.errors import MissingError, UsageError
from silva.train.config import TrainConfig
from silva.train.engines.group import ALONE, Group

if TYPE_CHECKING:
    from silva.train.engines.local import LocalEngine

_EXTRAS = {"trl": "trl", "datasets": "trl"}
SHARED_CORES = {"OMP_WAIT_POLICY": "passive", "GOMP_SPINCOUNT": "0"}
"""Waiting threads sleep: spinning ones collapse the speed of all where cores are shared. Read when torch is loaded."""


def share_cores() -> None:
    """Set `SHARED_CORES` where the environment says nothing else; before torch is imported, or it has no effect."""
    for name, value in SHARED_CORES.items():
        os.environ.setdefault(name, value)


def require(*modules: str) -> None:
    """Check that modules can be imported, without importing them.

    Raises:
        MissingError: one cannot.
    """
    for module in modules:
        if importlib.util.find_spec(module) is None:
            extra = _EXTRAS.get(module, "train")
            raise MissingError(f"training needs {module}, which is not installed: pip install 'silva[{extra}]'")


def open_engine(config: TrainConfig, group: Group = ALONE) -> LocalEngine:
    """The local engine with a configuration's policy, optimiser and teacher.

    Args:
        config: of the run.
        group: the processes that train together.

    Raises:
        MissingError: a library or the bundled model is not installed.
        UsageError: the policy or teacher cannot be used, or more processes are asked for than there are.
    """
    if group.size == 1 and config.scale.ranks > 1:
        raise UsageError(
            f"scale: {config.scale.ranks} processes are for `silva train run`; here one trains: leave it out"
        )
    if group.size == 1 and config.scale.shard:
        raise UsageError("scale.shard: one process has nobody to share weights with: set scale.processes")
    share_cores()
    require("torch", "transformers", "peft", "safetensors")
    import torch

    from silva.train.engines.local import LocalEngine

    if config.threads is not None:
        torch.set_num_threads(config.threads)
    elif group.size > 1 and "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(max(1, (os.cpu_count() or 1) // int(os.environ.get("LOCAL_WORLD_SIZE", group.size))))
    return LocalEngine(
        config.policy,
        config.optimiser,
        teacher=config.teacher,
        micro_tokens=config.micro_tokens,
        temperature=config.temperature,
        seed=config.seed,
        group=group,
        sharded=config.scale.shard,
    )

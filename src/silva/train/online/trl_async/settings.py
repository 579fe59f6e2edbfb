"""What an online run may ask of TRL's asynchronous trainer, and TRL's own arguments for it."""

from __future__ import annotations

import importlib.util
import os
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from silva.errors import MissingError, UsageError
from silva.train.engines.open import require

if TYPE_CHECKING:
    from silva.train.algorithms import Algorithm
    from silva.train.online.config import OnlineConfig

WRITTEN_FOR = "1.16"
FOLDER = "trl"
"""TRL's folder in the output folder: its checkpoints."""
SCHEDULES = {"constant": "constant_with_warmup", "linear": "linear", "cosine": "cosine"}


def refuse(config: OnlineConfig, algorithm: Algorithm) -> None:
    """Say what TRL's trainer has no counterpart for.

    Raises:
        UsageError: there is such a thing.
    """
    if algorithm.name != "grpo":
        raise UsageError(f"engine trl-async: it trains grpo, not {algorithm.name}; take engine: local")
    given: dict[str, Any] = {name: getattr(algorithm, name) for name in ("kl", "truncate", "distillation")}
    for name, value in given.items():
        if value:
            raise UsageError(f"engine trl-async: its GRPO has no {name}; leave it out, or take engine: local")
    for name in ("ratio", "normalise"):
        value = getattr(algorithm, name)
        if value != "token":
            raise UsageError(f"engine trl-async: its GRPO has no {name}: {value}; take token, or engine: local")
    for name, there in (
        ("teacher", config.teacher is not None),
        ("optimiser.floor", config.optimiser.floor > 0),
        ("policy.scratch", config.policy.scratch is not None),
    ):
        if there:
            raise UsageError(f"engine trl-async: {name} has no counterpart there; leave it out, or take engine: local")


def require_trl() -> None:
    """See that what the engine needs is installed, without loading torch.

    Raises:
        MissingError: something is not.
    """
    require("torch", "transformers", "peft", "safetensors", "datasets", "trl")
    os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")  # before its libraries are imported: nothing may be fetched
    try:
        there = importlib.util.find_spec("trl.experimental.async_grpo") is not None
    except ModuleNotFoundError:
        there = False
    if not there:
        raise MissingError(
            f"engine trl-async is written for trl {WRITTEN_FOR}, and trl {version('trl')} has no asynchronous GRPO: "
            "pip install 'silva[trl]'"
        )


def arguments(config: OnlineConfig, algorithm: Any, cuda: bool) -> dict[str, Any]:
    """TRL's `AsyncGRPOConfig` for a run.

    Args:
        config: of the run.
        algorithm: its GRPO.
        cuda: whether there is a GPU to train on.
    """
    optimiser, half = config.optimiser, computes_in_half(config, cuda)
    return {
        "output_dir": str(config.output / FOLDER),
        "max_steps": config.steps,
        "learning_rate": optimiser.learning_rate,
        "lr_scheduler_type": SCHEDULES[optimiser.schedule],
        "warmup_steps": optimiser.warmup,
        "weight_decay": optimiser.weight_decay,
        "adam_beta1": optimiser.betas[0],
        "adam_beta2": optimiser.betas[1],
        "adam_epsilon": optimiser.epsilon,
        "max_grad_norm": 0.0 if optimiser.clip is None else optimiser.clip,
        "temperature": config.temperature,
        "epsilon": algorithm.clip_low,
        "epsilon_high": algorithm.clip_high,
        "num_generations": config.group,
        "max_staleness": config.bound,
        "weight_sync_steps": 1,
        "token_budget": 0,
        "seed": config.seed % 2**32,
        # whole weights stay in float32, TRL's own default: they are the masters; a frozen base need not
        "dtype": "bfloat16" if half and config.policy.method == "lora" else "float32",
        "bf16": half,
        "use_cpu": not cuda,
        "gradient_checkpointing": cuda,
        "save_strategy": "steps",
        "save_steps": config.checkpoints.every,
        "save_total_limit": config.checkpoints.keep,
        "logging_steps": 1,
        "report_to": "none",
        "disable_tqdm": True,
    }


def computes_in_half(config: OnlineConfig, cuda: bool) -> bool:
    """Whether the forward pass is in bfloat16: as `policy.dtype` says; `auto` on a GPU alone."""
    return {"auto": cuda, "bfloat16": True, "float32": False}[config.policy.dtype]

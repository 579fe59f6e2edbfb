"""Stage `train`: from a version's weights, the head's or another's, and the selected samples to a candidate's. Goes on
from its checkpoint."""

from __future__ import annotations

import math
import sys
from typing import Any

from silva.loops.kernel.loop import Loop
from silva.loops.kernel.stage import Nothing, Stage
from silva.loops.line.config import LineConfig
from silva.loops.line.head import head_of
from silva.loops.line.weights import trained_from
from silva.train.checkpoint import Checkpoints
from silva.train.config import OptimiserConfig, TrainConfig
from silva.train.launch import plan, train
from silva.train.output import CHECKPOINTS, CONFIG
from silva.tree import Json, digest


def run(loop: Loop[LineConfig], stage: Stage, start: str = "") -> Json:
    """Train.

    Args:
        loop: whose.
        stage: the round's.
        start: the version that it begins from; the head where none is named.

    Raises:
        Nothing: it diverged, so the round has no candidate; the last good weights stay.
        UsageError, MissingError, StoreError: as `silva.train.launch.train`.
    """
    start = start or head_of(loop, stage)
    config = training(loop, stage, start)
    used = (config.output / CONFIG).exists() or (config.output / "checkpoints").exists()
    result = train(config, resume=used, out=sys.stderr)
    if result.status == "diverged" or result.policy is None:
        raise Nothing(f"training {result.status} after step {result.step}: {result.reason}")
    return {
        "policy": str(result.policy.relative_to(loop.folder)),
        "output": str(config.output.relative_to(loop.folder)),
        "algorithm": config.algorithm.name,
        "steps": result.step,
        "config": digest(repr(sorted(config.decisive().items()))),
        "parent": start,
    }


def training(loop: Loop[LineConfig], stage: Stage, start: str) -> TrainConfig:
    """The round's training run, from the version `start`. Its number of steps, where epochs are asked for, is that
    of the groups selected."""
    settings = loop.config.rounds[stage.round - 1]
    selected = loop.given(f"round-{stage.round}.select")
    values: dict[str, Any] = {
        "run": loop.run_name(stage),
        "output": loop.round_folder(stage) / "train",
        "policy": trained_from(loop, start),
        "algorithm": settings.algorithm,
        "data": {"files": [loop.folder / str(selected["file"])], **selected.get("reading", {})},
        "optimiser": _optimiser(loop, stage, start),
        "batch": settings.batch,
        "micro_tokens": settings.micro_tokens,
        "temperature": settings.temperature if settings.source == "policy" else 1.0,
        "seed": stage.seed,
        "threads": loop.config.threads,
        "checkpoints": {"every": settings.checkpoint_every, "weights": False},
        "divergence": settings.divergence,
        "curves": {},
    }
    if settings.steps is None and settings.epochs is not None:
        groups = int(plan(TrainConfig.model_validate({**values, "steps": settings.optimiser.warmup + 1}))["groups"])
        values["steps"] = max(math.ceil(settings.epochs * groups / settings.batch), settings.optimiser.warmup + 1)
    else:
        values["steps"] = settings.steps
    return TrainConfig.model_validate(values)


def _optimiser(loop: Loop[LineConfig], stage: Stage, start: str) -> OptimiserConfig:
    """The round's; where its state is carried, with the last checkpoint of the training that made version `start`, if
    that was by the same algorithm: gradients of another loss are of another size."""
    settings = loop.config.rounds[stage.round - 1]
    if settings.optimiser_state == "fresh":
        return settings.optimiser
    for earlier in range(stage.round - 1, 0, -1):
        made, trained = (loop.outputs(f"round-{earlier}.{kind}") for kind in ("register", "train"))
        if made is not None and trained is not None and made["version"] == start:
            if trained["algorithm"] != settings.algorithm.name:
                break
            last = Checkpoints(loop.folder / str(trained["output"]) / CHECKPOINTS, keep=1).latest()
            return settings.optimiser.model_copy(update={"moments": last})
    return settings.optimiser

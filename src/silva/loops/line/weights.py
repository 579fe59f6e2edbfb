"""A version as what plays and what is trained: one folder each, made when it is asked for.

LINE-0  the base: its folder, or `local`      LINE-N  whole weights: FOLDER/policies/LINE-N
                                                      an adapter: merged with its base into FOLDER/policies/LINE-N
                                                      (what plays); FOLDER/policies/adapters/LINE-N (what training
                                                      goes on from)
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from silva.loops.kernel.loop import Loop
from silva.loops.line.config import TINY, LineConfig
from silva.loops.line.head import registry
from silva.train.config import BUNDLED, PolicyConfig
from silva.train.registry.export import export_merged
from silva.train.registry.materialise import materialise
from silva.train.registry.weights import base_folder
from silva.train.sample import Sample

ADAPTERS = "adapters"
"""Under `policies`; no version is called so: those end in a number."""
UNSAID_CONTEXT = 2048
"""What a llama reads whose `config.json` does not say it."""


def base_weights(loop: Loop[LineConfig]) -> str:
    """The base as a configuration names it: `local`, or a folder."""
    base = loop.config.policy.base
    return str(loop.folder / "policies" / f"{loop.config.line}-0") if base == TINY else base


def renderer(loop: Loop[LineConfig]) -> str:
    """The tokenizer and template of the line."""
    return base_weights(loop)


def playing(loop: Loop[LineConfig], version: str) -> str:
    """The model's spec under which a version plays.

    Raises:
        UsageError, StoreError: the version or its base cannot be had.
    """
    kept = registry(loop)
    engine = "vllm" if loop.config.play.engine == "vllm" else "local"
    _, found = kept.find(version)
    if found.kind == "base":
        base = base_weights(loop)
        return BUNDLED if base == BUNDLED else f"{engine}:{base}"
    under = loop.folder / "policies"
    if found.kind == "full":
        return f"{engine}:{materialise(kept, found, under)}"
    target = under / found.name
    if not target.is_dir():
        export_merged(kept, found, target, base=base_weights(loop))
    return f"{engine}:{target}"


def trained_from(loop: Loop[LineConfig], version: str) -> PolicyConfig:
    """What training goes on from: the version's weights, or its base with its adapter.

    Raises:
        UsageError, StoreError: as `playing`.
    """
    policy = loop.config.policy
    kept = registry(loop)
    _, found = kept.find(version)
    start: Path | None = None
    weights = base_weights(loop)
    if found.kind == "full":
        weights = str(materialise(kept, found, loop.folder / "policies"))
    elif found.kind == "adapter":
        start = materialise(kept, found, loop.folder / "policies" / ADAPTERS)
        if weights != BUNDLED:
            weights = str(Path(weights).resolve())  # the registry's copy names its base by the folder's own name
    return PolicyConfig.model_validate(
        {
            "weights": weights,
            "method": policy.method,
            "adapter": policy.adapter.model_dump(),
            "start": start,
            "dtype": policy.dtype,
            "context": policy.context,
        }
    )


def context(loop: Loop[LineConfig]) -> int:
    """The most ids a sample of the line may have: what its weights can read, or less where `policy.context` says so.

    Raises:
        UsageError, MissingError: the base cannot be had.
    """
    said: Any = base_folder(base_weights(loop)).config().get("max_position_embeddings")
    own = int(said or UNSAID_CONTEXT)
    return own if loop.config.policy.context is None else min(own, loop.config.policy.context)


def with_logprobs(
    loop: Loop[LineConfig], version: str, samples: list[Sample], temperature: float
) -> tuple[list[Sample], float]:
    """The samples with log-probabilities of what was drawn as the trainer computes them under the version that drew,
    and how far they lie from those the server gave, as a mean over ids (0 where it gave none).

    Each sample is computed alone, so the numbers depend on nothing but its ids and the weights; samples that are alike,
    as a policy's attempts come to be the surer it is, are computed once.

    Raises:
        MissingError: a library is not installed.
        UsageError: the version cannot be had.
    """
    from dataclasses import replace

    import numpy as np

    from silva.train.engines.open import require, share_cores

    share_cores()
    require("torch", "transformers", "peft", "safetensors")
    import torch

    from silva.train.engines.local import LocalEngine

    if loop.config.threads is not None:
        torch.set_num_threads(loop.config.threads)
    engine = LocalEngine(trained_from(loop, version), temperature=temperature)
    read = [(sample.ids.tobytes(), sample.mask.tobytes()) for sample in samples]
    alike = dict(zip(read, samples, strict=True))
    try:
        computed = dict(zip(alike, engine.logprobs(list(alike.values())), strict=True))
    finally:
        engine.close()
    made: list[Sample] = []
    apart: list[float] = []
    for sample, values in zip(samples, map(computed.__getitem__, read), strict=True):
        logprobs = sample.logprobs.copy()
        given = logprobs[sample.mask]
        apart += [float(each) for each in np.abs(given - values) if np.isfinite(each)]
        logprobs[sample.mask] = values
        made.append(replace(sample, logprobs=logprobs))
    return made, float(np.mean(apart)) if apart else 0.0

"""Makes small folders of weights for the tests of policy versions: a Hugging Face base, and adapters of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from silva.train.registry.tensors import stored, write_tensors

WIDTH, WIDER = 8, 12
MODULES = {"layers.0.q_proj": (WIDTH, WIDTH), "layers.0.up_proj": (WIDER, WIDTH)}
"""Modules of the small base: [out, in]."""


def base(folder: Path, seed: int = 0, dtype: str = "BF16", width: int = WIDTH) -> Path:
    """Whole weights of a small network, random."""
    draw = np.random.default_rng(seed)
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({"model_type": "llama", "dtype": "bfloat16"}))
    (folder / "tokenizer.json").write_text("{}")
    shapes = {f"model.{name}.weight": (out, width) for name, (out, _) in MODULES.items()}
    shapes["model.norm.weight"] = (width,)
    arrays = {name: draw.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    write_tensors(folder / "model.safetensors", {name: stored(array, dtype) for name, array in arrays.items()})
    return folder


def adapter(folder: Path, seed: int = 1, rank: int = 2, value: float | None = None, **config: Any) -> Path:
    """A LoRA on every module of the small base; `config` overrides fields of its config."""
    draw = np.random.default_rng(seed)
    folder.mkdir(parents=True)
    known = {"peft_type": "LORA", "r": rank, "lora_alpha": 4, "bias": "none"}
    known |= {"target_modules": ["up_proj", "q_proj"], "base_model_name_or_path": "small"}
    (folder / "adapter_config.json").write_text(json.dumps({**known, **config}))
    (folder / "optimizer.pt").write_bytes(b"not a part of it")
    arrays: dict[str, Any] = {}
    for name, (out, width) in MODULES.items():
        arrays[f"base_model.model.model.{name}.lora_A.weight"] = draw.standard_normal((rank, width))
        arrays[f"base_model.model.model.{name}.lora_B.weight"] = draw.standard_normal((out, rank))
    if value is not None:
        next(iter(arrays.values()))[0, 0] = value
    tensors = {name: stored(array.astype(np.float32), "F32") for name, array in arrays.items()}
    write_tensors(folder / "adapter_model.safetensors", tensors)
    return folder

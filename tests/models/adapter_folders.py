"""Makes LoRA adapters in PEFT's folder format for the tests of the local model."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from silva.models.local.server import ENVIRONMENT

os.environ.update(ENVIRONMENT)  # before torch reads it: threads that spin starve whatever else runs
pytest.importorskip("torch")

import torch
from safetensors.torch import save_file

SHAPES = {
    "self_attn.q_proj": (576, 576),
    "self_attn.k_proj": (576, 192),
    "self_attn.v_proj": (576, 192),
    "self_attn.o_proj": (576, 576),
    "mlp.gate_proj": (576, 1536),
    "mlp.up_proj": (576, 1536),
    "mlp.down_proj": (1536, 576),
}
ALL = tuple(SHAPES)
LAYERS = 30


def write(
    folder: Path, tensors: dict[str, torch.Tensor], targets: tuple[str, ...], base_digest: str = "", **config: object
) -> Path:
    """A PEFT folder with those tensors; `base_digest` is recorded as trainers do, `config` overrides fields."""
    folder.mkdir(parents=True)
    known = {"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": 8, "lora_alpha": 16, "bias": "none"}
    names = [target.rpartition(".")[2] for target in targets]
    whole = {**known, "base_model_name_or_path": "smollm2-135m-instruct", "target_modules": names, **config}
    (folder / "adapter_config.json").write_text(json.dumps(whole))
    save_file(tensors, folder / "adapter_model.safetensors", {"base_digest": base_digest} if base_digest else None)
    return folder


def random_tensors(
    seed: int, targets: tuple[str, ...] = ALL, rank: int = 8, strength: float = 0.05
) -> dict[str, torch.Tensor]:
    """Random matrices for every layer."""
    draw = torch.Generator().manual_seed(seed)
    tensors: dict[str, torch.Tensor] = {}
    for layer in range(LAYERS):
        for target in targets:
            width_in, width_out = SHAPES[target]
            name = f"base_model.model.model.layers.{layer}.{target}"
            tensors[f"{name}.lora_A.weight"] = torch.randn(rank, width_in, generator=draw) * width_in**-0.5
            tensors[f"{name}.lora_B.weight"] = torch.randn(width_out, rank, generator=draw) * strength
    return tensors


def random_adapter(folder: Path, seed: int, targets: tuple[str, ...] = ALL, rank: int = 8, **config: Any) -> Path:
    """A folder with random matrices."""
    return write(folder, random_tensors(seed, targets, rank), targets, r=rank, **config)


class _Spy:
    """Stands in for the deltas of a batch: notes what goes into the last layer's last projection."""

    def __init__(self) -> None:
        self.seen: list[torch.Tensor] = []

    def add(self, result: torch.Tensor, given: torch.Tensor, layer: int, site: str) -> torch.Tensor:
        """Note it."""
        if layer == LAYERS - 1 and site == "down":
            self.seen.append(given.reshape(-1, given.shape[-1]).clone())
        return result


def constant_input(network) -> torch.Tensor:
    """A direction [1536] on which whatever reaches the last projection has about the length 1, whatever was read."""
    spy = _Spy()
    draw = torch.Generator().manual_seed(0)
    texts = [torch.randint(0, 30000, (1, 100), generator=draw) for _ in range(4)]
    for ids in texts:
        length = ids.shape[1]
        positions = torch.arange(length)[None]

        def attend(layer, query, key, value):
            def heads(part, times):
                return part.transpose(1, 2).repeat_interleave(times, 1)

            mixed = torch.nn.functional.scaled_dot_product_attention(
                heads(query, 1), heads(key, 3), heads(value, 3), is_causal=True
            )
            return mixed.transpose(1, 2).reshape(1, query.shape[1], -1)

        with torch.inference_mode():
            network._run(ids, positions, attend, spy)
    given = torch.cat(spy.seen).double()
    ridge = given.T @ given + 0.01 * len(given) * torch.eye(given.shape[1], dtype=torch.float64)
    return torch.linalg.solve(ridge, given.T @ torch.ones(len(given), dtype=torch.float64)).float()


def speaking_adapter(folder: Path, network, direction: torch.Tensor, token: int, strength: float = 20000.0) -> Path:
    """An adapter under which the model says one token again and again, whatever was said before."""
    embedding = network._unembedding.float()
    spread = embedding.T @ embedding / len(embedding)  # told apart from the others, not only likened to itself
    aim = torch.linalg.solve(spread + 1e-3 * spread.trace() / 576 * torch.eye(576), embedding[token])
    aim = aim / network._norm.float()
    name = f"base_model.model.model.layers.{LAYERS - 1}.mlp.down_proj"
    tensors = {f"{name}.lora_A.weight": torch.zeros(8, 1536), f"{name}.lora_B.weight": torch.zeros(576, 8)}
    tensors[f"{name}.lora_A.weight"][0] = direction
    tensors[f"{name}.lora_B.weight"][:, 0] = aim / aim.norm() * strength
    return write(folder, tensors, ("mlp.down_proj",))

"""What a folder in Hugging Face form says of a llama network: its shape, checked, and its weights.

config.json, generation_config.json ─▶ Architecture      what this network does not compute is refused by name
model.safetensors | model.safetensors.index.json ─▶ weights by name, all of the shapes the configuration says
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from silva.errors import MissingError, UsageError
from silva.tree import Record

WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"

PLAIN_ROPE = "default"
STATIC_ROPES = ("linear", "llama3", "yarn")
"""Ways to stretch positions that do not depend on how long a text is."""


class Architecture(Record, frozen=True, kw_only=True):
    """The shape of a llama: `context` is the most tokens a row may hold, `ends` the ids the configuration says end a
    reply, `size` the width of a head, `rope` its rotary settings (`rope_theta`, `rope_type`, …)."""

    name: str
    vocabulary: int
    width: int
    inner: int
    depth: int
    heads: int
    key_heads: int
    size: int
    context: int
    epsilon: float
    tied: bool
    ends: frozenset[int]
    rope: dict[str, Any]

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Name and shape of every weight the network needs."""
        query, key = self.heads * self.size, self.key_heads * self.size
        named: dict[str, tuple[int, ...]] = {
            "model.embed_tokens.weight": (self.vocabulary, self.width),
            "model.norm.weight": (self.width,),
        }
        if not self.tied:
            named["lm_head.weight"] = (self.vocabulary, self.width)
        for layer in range(self.depth):
            prefix = f"model.layers.{layer}"
            named |= {
                f"{prefix}.input_layernorm.weight": (self.width,),
                f"{prefix}.post_attention_layernorm.weight": (self.width,),
                f"{prefix}.self_attn.q_proj.weight": (query, self.width),
                f"{prefix}.self_attn.k_proj.weight": (key, self.width),
                f"{prefix}.self_attn.v_proj.weight": (key, self.width),
                f"{prefix}.self_attn.o_proj.weight": (self.width, query),
                f"{prefix}.mlp.gate_proj.weight": (self.inner, self.width),
                f"{prefix}.mlp.up_proj.weight": (self.inner, self.width),
                f"{prefix}.mlp.down_proj.weight": (self.width, self.inner),
            }
        return named

    @property
    def parameters(self) -> int:
        """How many numbers the weights hold."""
        return sum(math.prod(shape) for shape in self.shapes().values())


def read_architecture(folder: Path) -> Architecture:
    """Read and check what the folder's configuration says.

    Raises:
        UsageError: there is no folder or configuration, or it is of a network that is not computed here.
    """
    name = folder.name
    if not folder.is_dir():
        raise UsageError(f"model folder {name}: there is no such folder; name one with config.json in it")
    config = _object(folder, "config.json")
    if config is None:
        raise UsageError(f"model folder {name}: config.json is missing; name the folder of a whole model")
    kind = config.get("model_type")
    if kind != "llama":
        raise UsageError(f"model folder {name}: it is of type {kind}, only llama is computed here: serve it with vLLM")
    for field in ("attention_bias", "mlp_bias"):
        if config.get(field):
            raise UsageError(f"model folder {name}: {field} is not computed here: serve it with vLLM")
    if config.get("quantization_config"):
        raise UsageError(f"model folder {name}: its weights are quantised; save it in bfloat16 or float32 first")
    if config.get("hidden_act", "silu") != "silu":
        raise UsageError(f"model folder {name}: hidden_act {config['hidden_act']} is not computed here: use vLLM")
    try:
        heads = int(config["num_attention_heads"])
        width = int(config["hidden_size"])
        return Architecture(
            name=name,
            vocabulary=int(config["vocab_size"]),
            width=width,
            inner=int(config["intermediate_size"]),
            depth=int(config["num_hidden_layers"]),
            heads=heads,
            key_heads=int(config.get("num_key_value_heads") or heads),
            size=int(config.get("head_dim") or width // heads),
            context=int(config.get("max_position_embeddings", 2048)),
            epsilon=float(config.get("rms_norm_eps", 1e-6)),
            tied=bool(config.get("tie_word_embeddings", False)),
            ends=_ends(config) | _ends(_object(folder, "generation_config.json") or {}),
            rope=_rope(name, config),
        )
    except KeyError as fault:
        raise UsageError(f"model folder {name}: config.json does not say {fault.args[0]}") from fault
    except (TypeError, ValueError) as fault:
        raise UsageError(f"model folder {name}: config.json holds a value of the wrong kind: {fault}") from fault


def weight_files(folder: Path) -> list[Path]:
    """The files the weights lie in, one or several.

    Raises:
        UsageError: there is none, or the index names one that is not there.
    """
    if (folder / WEIGHTS).is_file():
        return [folder / WEIGHTS]
    index = _object(folder, INDEX)
    named: Any = (index or {}).get("weight_map")
    if not isinstance(named, dict) or not named:
        raise UsageError(f"model folder {folder.name}: {WEIGHTS} is missing; save the model's weights there")
    files = [folder / str(file) for file in sorted(set(named.values()))]
    if missing := next((file for file in files if file.parent != folder or not file.is_file()), None):
        raise UsageError(f"model folder {folder.name}: {missing.name}, which {INDEX} names, is missing")
    return files


def read_weights(folder: Path, architecture: Architecture) -> dict[str, Any]:
    """The weights as torch tensors by name, those of the network and no others.

    Raises:
        UsageError: a file cannot be read, or a weight is missing or of another shape than the configuration says.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    found: dict[str, Any] = {}
    for file in weight_files(folder):
        try:
            found |= load_file(file)
        except (SafetensorError, OSError, KeyError, ValueError) as fault:
            words = " ".join(str(fault).split())[:200]
            raise UsageError(f"model folder {folder.name}: {file.name} cannot be read: {words}") from fault
    return _checked(folder.name, found, architecture.shapes())


def frequencies(architecture: Architecture) -> tuple[Any, float]:
    """The rotary frequencies, [size / 2], and what cosines and sines are multiplied by.

    Raises:
        MissingError: positions are stretched, which needs transformers, and it is not installed.
    """
    import torch

    rope, size = architecture.rope, architecture.size
    if rope["rope_type"] == PLAIN_ROPE:
        return rope["rope_theta"] ** -(torch.arange(0, size, 2, dtype=torch.float32) / size), 1.0
    try:
        from transformers import LlamaConfig
        from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
    except ModuleNotFoundError as fault:
        raise MissingError(
            "positions of this model are stretched, which needs transformers: pip install 'silva[local]'"
        ) from fault
    config = LlamaConfig(
        hidden_size=architecture.width,
        num_attention_heads=architecture.heads,
        head_dim=size,
        max_position_embeddings=architecture.context,
        rope_parameters=rope,
    )
    return ROPE_INIT_FUNCTIONS[rope["rope_type"]](config, None)


def _checked(name: str, found: Mapping[str, Any], wanted: dict[str, tuple[int, ...]]) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for key, shape in wanted.items():
        tensor = found.get(key)
        if tensor is None:
            raise UsageError(f"model folder {name}: its weights lack {key}, which config.json asks for")
        if tuple(tensor.shape) != shape:
            raise UsageError(
                f"model folder {name}: {key} has shape {list(tensor.shape)} where config.json says {list(shape)}"
            )
        kept[key] = tensor
    return kept


def _ends(config: Mapping[str, Any]) -> frozenset[int]:
    ends = config.get("eos_token_id")
    listed: list[Any] = ends if isinstance(ends, list) else [ends]
    return frozenset(number for number in listed if isinstance(number, int))


def _rope(name: str, config: Mapping[str, Any]) -> dict[str, Any]:
    """The rotary settings, as transformers 5 or as earlier versions write them."""
    given: Any = config.get("rope_parameters") or config.get("rope_scaling") or {}
    rope = dict(given)
    rope["rope_theta"] = float(rope.get("rope_theta") or config.get("rope_theta") or 10000.0)
    rope["rope_type"] = rope.get("rope_type") or rope.get("type") or PLAIN_ROPE
    rope.pop("type", None)
    if rope["rope_type"] not in (PLAIN_ROPE, *STATIC_ROPES):
        raise UsageError(f"model folder {name}: rope_type {rope['rope_type']} is not computed here: serve it with vLLM")
    return rope


def _object(folder: Path, name: str) -> dict[str, Any] | None:
    try:
        value = json.loads((folder / name).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as fault:
        reason = (fault.strerror if isinstance(fault, OSError) else None) or "it is not JSON"
        raise UsageError(f"model folder {folder.name}: {name} cannot be read: {reason}") from fault
    if not isinstance(value, dict):
        raise UsageError(f"model folder {folder.name}: {name} is not a JSON object")
    return value

"""How large a tiny policy is, and the weights it begins with."""

from __future__ import annotations

from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from silva.models.local.checkpoint import Architecture

INITIAL = 0.02
"""Standard deviation of the first weights, as transformers begins a llama."""

ROPE = {"rope_theta": 10000.0, "rope_type": "default"}


class Shape(BaseModel):
    """Size of the network: about 1.9 million parameters as it stands. `vocabulary` is the most tokens the tokenizer
    may have, `context` the most tokens of a conversation."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    vocabulary: int = Field(default=1024, ge=300, le=65536)
    width: int = Field(default=192, ge=16)
    inner: int = Field(default=512, ge=16)
    layers: int = Field(default=4, ge=1)
    heads: int = Field(default=4, ge=1)
    key_heads: int = Field(default=2, ge=1)
    context: int = Field(default=8192, ge=64)

    @model_validator(mode="after")
    def _heads_divide(self) -> Shape:
        if self.width % (2 * self.heads):
            raise ValueError(f"width {self.width}: it must be a multiple of twice the {self.heads} heads")
        if self.heads % self.key_heads:
            raise ValueError(f"heads {self.heads}: they must be a multiple of the {self.key_heads} key_heads")
        return self

    def architecture(self, name: str, vocabulary: int, end: int) -> Architecture:
        """The network of this size with so many tokens, of which `end` ends a reply."""
        return Architecture(
            name=name,
            vocabulary=vocabulary,
            width=self.width,
            inner=self.inner,
            depth=self.layers,
            heads=self.heads,
            key_heads=self.key_heads,
            size=self.width // self.heads,
            context=self.context,
            epsilon=1e-5,
            tied=True,
            ends=frozenset({end}),
            rope=dict(ROPE),
        )


def first_weights(architecture: Architecture, seed: int) -> dict[str, Any]:
    """The weights before any training, float32: norms 1, all else normal with deviation 0.02, drawn from the seed."""
    source = np.random.default_rng(seed)
    weights: dict[str, Any] = {}
    for name, shape in sorted(architecture.shapes().items()):
        if len(shape) == 1:
            weights[name] = np.ones(shape, dtype=np.float32)
        else:
            weights[name] = (source.standard_normal(shape) * INITIAL).astype(np.float32)
    return weights


def configuration(architecture: Architecture, end: int) -> dict[str, Any]:
    """What `config.json` says of it."""
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": architecture.vocabulary,
        "hidden_size": architecture.width,
        "intermediate_size": architecture.inner,
        "num_hidden_layers": architecture.depth,
        "num_attention_heads": architecture.heads,
        "num_key_value_heads": architecture.key_heads,
        "head_dim": architecture.size,
        "hidden_act": "silu",
        "max_position_embeddings": architecture.context,
        "rms_norm_eps": architecture.epsilon,
        "rope_parameters": architecture.rope,
        "attention_bias": False,
        "mlp_bias": False,
        "initializer_range": INITIAL,
        "tie_word_embeddings": architecture.tied,
        "bos_token_id": None,
        "eos_token_id": end,
        "pad_token_id": end,
        "dtype": "float32",
    }

"""Attention over a row in which samples share prefixes, in torch: what TRL's kernel does, on any machine.

    row of T positions, cut in segments; segment s sees the positions index[k[s]:k[s+1]], itself at their end
    query of s ─▶ causal attention to them ─▶ T positions

TRL names its own `tree_fa3`: FlashAttention 3, for NVIDIA's Hopper and later, fetched from a hub when first used. The
arguments are TRL's (trl.experimental.async_grpo.packing), the result the same up to rounding.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.attention.bias import causal_lower_right
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface
from transformers.masking_utils import AttentionMaskInterface

NAME = "silva_trl_tree"
"""What a model's `attn_implementation` is called."""


def tree_attention(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    tree_kv_index: Tensor,
    tree_cu_seqlens_q: Tensor,
    tree_cu_seqlens_k: Tensor,
    dropout: float = 0.0,
    scaling: float | None = None,
    sliding_window: int | None = None,
    **_: Any,
) -> tuple[Tensor, None]:
    """Causal attention along each sample's own way.

    Args:
        module: of the layer.
        query: [1, heads, T, size].
        key: [1, key heads, T, size].
        value: as `key`.
        attention_mask: not looked at; the segments say all.
        tree_kv_index: [K], positions each segment sees, end to end.
        tree_cu_seqlens_q: [S + 1], bounds of the segments in the row.
        tree_cu_seqlens_k: [S + 1], bounds of their parts in `tree_kv_index`.
        dropout: chance of leaving a weight out.
        scaling: of the products.
        sliding_window: must be None.

    Returns:
        [1, T, heads, size], and None for the weights.

    Raises:
        ValueError: the model looks through a sliding window.
    """
    if sliding_window is not None:
        raise ValueError("tree_attention has no sliding window; take attention: fa3")
    group = query.shape[1] // key.shape[1]
    starts, ways = tree_cu_seqlens_q.tolist(), tree_cu_seqlens_k.tolist()
    mixed: list[Tensor] = []
    for place in range(len(starts) - 1):
        seen = tree_kv_index[ways[place] : ways[place + 1]]
        length = starts[place + 1] - starts[place]
        whole = len(seen) == length
        mixed.append(
            scaled_dot_product_attention(
                query[:, :, starts[place] : starts[place + 1]],
                key[:, :, seen].repeat_interleave(group, dim=1),
                value[:, :, seen].repeat_interleave(group, dim=1),
                attn_mask=None if whole else causal_lower_right(length, len(seen)),
                dropout_p=dropout,
                is_causal=whole,
                scale=scaling,
            )
        )
    return torch.cat(mixed, dim=2).transpose(1, 2).contiguous(), None


AttentionInterface.register(NAME, tree_attention)
AttentionMaskInterface.register(NAME, lambda **_: None)

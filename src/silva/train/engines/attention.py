"""Attention over samples laid one behind another: each attends to itself alone, and no position is padding.

    query, key, value of T positions ─▶ cut at the samples' bounds ─▶ causal attention of each ─▶ T positions

Everything else in the network works position by position, so T real positions cost T. Where one dense mask over all T
would pay for T x T, this pays for the sum of squares of the samples' lengths.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface

NAME = "silva_segments"
"""What a model's `attn_implementation` is called; the bounds go in as `segments`, a list of (start, stop)."""


def segment_attention(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    segments: Sequence[tuple[int, int]] | None = None,
    **_: Any,
) -> tuple[Tensor, None]:
    """Causal attention of each segment.

    Args:
        module: of the layer; says how many query heads share a key head.
        query: [1, heads, T, size].
        key: [1, key heads, T, size].
        value: as `key`.
        attention_mask: must be None.
        dropout: chance of leaving a weight out.
        scaling: of the products.
        segments: bounds that cover 0 to T in order; None for one segment.

    Returns:
        [1, T, heads, size], and None for the weights.

    Raises:
        ValueError: a mask was given, or more than one row.
    """
    if attention_mask is not None or len(query) != 1:
        raise ValueError("segment_attention takes one row and no mask")
    group = query.shape[1] // key.shape[1]
    mixed = [
        scaled_dot_product_attention(
            query[:, :, start:stop],
            key[:, :, start:stop].repeat_interleave(group, dim=1),
            value[:, :, start:stop].repeat_interleave(group, dim=1),
            dropout_p=dropout,
            is_causal=True,
            scale=scaling,
        )
        for start, stop in segments or [(0, query.shape[2])]
    ]
    return torch.cat(mixed, dim=2).transpose(1, 2).contiguous(), None


AttentionInterface.register(NAME, segment_attention)

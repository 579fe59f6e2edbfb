"""Attention over samples laid out as a tree of runs: each position sees what stands before it in its own sample alone.

    query, key, value of T positions ─▶ cut at the runs' bounds ─▶ attention of each run to the runs before it on its
    way and, causally, to itself ─▶ T positions

Everything else in the network works position by position, so T real positions cost T, no position is padding, and a
prefix that samples share (`silva.train.engines.prefixes`) is computed once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention.bias import causal_lower_right
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface

from silva.train.engines.prefixes import Segment

NAME = "silva_segments"
"""What a model's `attn_implementation` is called; the runs go in as `segments`."""


def segment_attention(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    segments: Sequence[Segment] | None = None,
    **_: Any,
) -> tuple[Tensor, None]:
    """Causal attention along each sample.

    Args:
        module: of the layer; says how many query heads share a key head.
        query: [1, heads, T, size].
        key: [1, key heads, T, size].
        value: as `key`.
        attention_mask: must be None.
        dropout: chance of leaving a weight out.
        scaling: of the products.
        segments: runs that cover 0 to T in order; None for one run.

    Returns:
        [1, T, heads, size], and None for the weights.

    Raises:
        ValueError: a mask was given, or more than one row.
    """
    if attention_mask is not None or len(query) != 1:
        raise ValueError("segment_attention takes one row and no mask")
    group = query.shape[1] // key.shape[1]
    runs = segments or [Segment(start=0, stop=query.shape[2])]
    numbers = {(run.start, run.stop): number for number, run in enumerate(runs)}
    # Split, not sliced: a slice's gradient is as long as all positions, once for each run.
    queries, keys, values = (
        whole.split([run.stop - run.start for run in runs], dim=2)
        for whole in (query, key.repeat_interleave(group, dim=1), value.repeat_interleave(group, dim=1))
    )
    mixed = []
    for number, run in enumerate(runs):
        way = [*(numbers[bounds] for bounds in run.before), number]
        length = run.stop - run.start
        mixed.append(
            scaled_dot_product_attention(
                queries[number],
                torch.cat([keys[each] for each in way], dim=2),
                torch.cat([values[each] for each in way], dim=2),
                attn_mask=causal_lower_right(length, run.seen + length) if run.before else None,
                dropout_p=dropout,
                is_causal=not run.before,
                scale=scaling,
            )
        )
    return torch.cat(mixed, dim=2).transpose(1, 2).contiguous(), None


AttentionInterface.register(NAME, segment_attention)

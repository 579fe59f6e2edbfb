"""An adapter as the network multiplies it: two matrices for each place where projections are done at once."""

from __future__ import annotations

from torch import Tensor

SITES = {"qkv": ("q", "k", "v"), "out": ("o",), "gate_up": ("gate", "up"), "down": ("down",)}
"""The multiplications of a layer and the projections each does at once, in this order."""

Pair = tuple[Tensor, Tensor]
"""The matrix that goes down to the rank, and the one that comes up again."""


class Adapter:
    """An adapter's weights.

    `digest` tells its content (weights and scale) from any other's; `pairs[layer]` maps a site to its two matrices.
    """

    def __init__(self, digest: str, rank: int, pairs: list[dict[str, Pair]]) -> None:
        self.digest = digest
        self.rank = rank
        self.pairs = pairs

"""What the adapters of a batch add to a projection: each row is multiplied by its own adapter's matrices, and no other.

    rows  base  a  b  a  base ─▶ groups  a: rows 1, 3 · b: row 2 ─▶ result[rows] += up @ (down @ given[rows])

Rows of one adapter are multiplied together; rows without one are not touched, and a batch without adapters pays
nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as functional
from torch import Tensor

from silva.models.local.adapted import Adapter


class Deltas:
    """The adapters of one batch.

    Args:
        adapters: of each row, in order; None for a row of the plain weights.
    """

    def __init__(self, adapters: Sequence[Adapter | None]) -> None:
        rows: dict[int, tuple[Adapter, list[int]]] = {}
        for row, adapter in enumerate(adapters):
            if adapter is not None:
                rows.setdefault(id(adapter), (adapter, []))[1].append(row)
        self._groups = [
            (adapter, None if len(own) == len(adapters) else torch.tensor(own)) for adapter, own in rows.values()
        ]

    def add(self, result: Tensor, given: Tensor, layer: int, site: str) -> Tensor:
        """Add to `result`, in place, what the adapters make of `given`.

        Args:
            result: [rows, tokens, out], what the plain weights made of it.
            given: [rows, tokens, in].
            layer: index of the layer.
            site: key of `network.SITES`.
        """
        for adapter, rows in self._groups:
            pair = adapter.pairs[layer].get(site)
            if pair is None:
                continue
            down, up = pair
            if rows is None:
                result += functional.linear(functional.linear(given, down), up)
            else:
                own = functional.linear(functional.linear(given.index_select(0, rows), down), up)
                result.index_add_(0, rows, own)
        return result

"""Cutting a step into what is computed at once: samples laid out with shared prefixes, a bounded number of tokens.

    samples ─▶ what of each must be read ─▶ units (a sample, or a pair) ─▶ clusters that share a prefix
            ─▶ first fit decreasing ─▶ MicroBatch

Of a sample only the ids before its last position with loss are read: what stands behind teaches nothing, and the last
id is only predicted. A unit longer than the bound is computed by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from silva.train.algorithms.totals import loss_positions
from silva.train.engines.prefixes import SHORTEST, Segment, common, in_order, lay_out
from silva.train.packing import pack
from silva.train.sample import Ids, Sample


@dataclass(frozen=True, kw_only=True)
class MicroBatch:
    """Samples computed at once. `ids` and `positions` have shape (1, T); `segments` are the runs of their tree;
    `read_at` (L,) are the places whose hidden state predicts a position with loss, `targets` (L,) the ids there."""

    samples: tuple[Sample, ...]
    ids: Tensor
    positions: Tensor
    segments: tuple[Segment, ...]
    read_at: Tensor
    targets: Tensor

    @staticmethod
    def of(samples: Sequence[Sample]) -> MicroBatch:
        """Lay samples out."""
        layout = lay_out([_read(sample) for sample in samples])
        losses = [loss_positions(sample) for sample in samples]
        read_at = [places[at - 1] for places, at in zip(layout.places, losses, strict=True)]
        targets = [sample.ids[at] for sample, at in zip(samples, losses, strict=True)]
        return MicroBatch(
            samples=tuple(samples),
            ids=_tensor([layout.ids])[None],
            positions=_tensor([layout.positions])[None],
            segments=layout.segments,
            read_at=_tensor(read_at),
            targets=_tensor(targets),
        )

    def to(self, device: torch.device) -> MicroBatch:
        """The same with its tensors on a device."""
        moved = {key: value.to(device) for key, value in vars(self).items() if isinstance(value, Tensor)}
        return replace(self, **moved)


def micro_batches(samples: Sequence[Sample], most_tokens: int, pairs: bool = False) -> list[MicroBatch]:
    """Cut a step. Samples without loss are left out, except in pairs, which are never cut.

    Args:
        samples: of the step; with `pairs`, chosen, rejected, chosen, rejected, …
        most_tokens: read at once.
        pairs: see above.

    Raises:
        BatchError: position 0 carries loss, or a weight is wrong.
    """
    if pairs:
        units = [tuple(samples[at : at + 2]) for at in range(0, len(samples), 2)]
    else:
        units = [(sample,) for sample in samples if len(loss_positions(sample))]
    read = [[_read(sample) for sample in unit] for unit in units]
    clusters, costs = _clusters(read, most_tokens)
    alone = [members for members, cost in zip(clusters, costs, strict=True) if cost > most_tokens]
    fitting = [number for number, cost in enumerate(costs) if 0 < cost <= most_tokens]
    packs = [
        sorted(unit for place in row for unit in clusters[fitting[place]])
        for row in pack([costs[number] for number in fitting], most_tokens)
    ]
    return [MicroBatch.of([sample for number in row for sample in units[number]]) for row in sorted(alone + packs)]


def _clusters(read: Sequence[Sequence[Ids]], most_tokens: int) -> tuple[list[list[int]], list[int]]:
    """Units that share a prefix, as many together as fit, and what each cluster costs in tokens at most."""
    clusters: list[list[int]] = []
    costs: list[int] = []
    last: Ids | None = None
    for number in in_order([unit[0] for unit in read]):
        unit = read[number]
        cost = len(unit[0]) + sum(len(row) - _shared(unit[0], row) for row in unit[1:])
        saved = 0 if last is None else _shared(last, unit[0])
        if saved and costs[-1] + cost - saved <= most_tokens:
            clusters[-1].append(number)
            costs[-1] += cost - saved
        else:
            clusters.append([number])
            costs.append(cost)
        last = unit[0]
    return clusters, costs


def _shared(left: Ids, right: Ids) -> int:
    length = common(left, right)
    return length if length >= SHORTEST else 0


def _read(sample: Sample) -> Ids:
    at = loss_positions(sample)
    return sample.ids[: int(at[-1]) if len(at) else 0]


def _tensor(arrays: list[np.ndarray]) -> Tensor:
    return torch.from_numpy(np.concatenate(arrays).astype(np.int64))

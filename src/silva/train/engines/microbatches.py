"""Cutting a step into what is computed at once: samples laid one behind another, a bounded number of tokens.

    samples ─▶ what of each must be read ─▶ units (a sample, or a pair) ─▶ first fit decreasing ─▶ MicroBatch

Of a sample only the ids before its last position with loss are read: what stands behind teaches nothing, and the last
id is only predicted. A unit longer than the bound is computed by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from silva.train.algorithms.totals import loss_positions
from silva.train.packing import pack
from silva.train.sample import Sample


@dataclass(frozen=True, kw_only=True)
class MicroBatch:
    """Samples computed at once. `ids` and `positions` have shape (1, T); `segments` are the samples' bounds in them;
    `read_at` (L,) are the places whose hidden state predicts a position with loss, `targets` (L,) the ids there."""

    samples: tuple[Sample, ...]
    ids: Tensor
    positions: Tensor
    segments: tuple[tuple[int, int], ...]
    read_at: Tensor
    targets: Tensor

    @staticmethod
    def of(samples: Sequence[Sample]) -> MicroBatch:
        """Lay samples one behind another."""
        ids, positions, segments, read_at, targets = [], [], [], [], []
        start = 0
        for sample in samples:
            at = loss_positions(sample)
            length = _read(sample)
            ids.append(sample.ids[:length])
            positions.append(np.arange(length))
            if length:
                segments.append((start, start + length))
            read_at.append(start + at - 1)
            targets.append(sample.ids[at])
            start += length
        return MicroBatch(
            samples=tuple(samples),
            ids=_tensor(ids)[None],
            positions=_tensor(positions)[None],
            segments=tuple(segments),
            read_at=_tensor(read_at),
            targets=_tensor(targets),
        )


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
    lengths = [sum(map(_read, unit)) for unit in units]
    alone = [[number] for number, length in enumerate(lengths) if length > most_tokens]
    fitting = [number for number, length in enumerate(lengths) if 0 < length <= most_tokens]
    packs = [[fitting[place] for place in row] for row in pack([lengths[number] for number in fitting], most_tokens)]
    return [MicroBatch.of([sample for number in row for sample in units[number]]) for row in sorted(alone + packs)]


def _read(sample: Sample) -> int:
    at = loss_positions(sample)
    return int(at[-1]) if len(at) else 0


def _tensor(arrays: list[np.ndarray]) -> Tensor:
    return torch.from_numpy(np.concatenate(arrays).astype(np.int64))

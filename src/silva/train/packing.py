"""Packing: samples laid one behind another, so that a batch has little padding and no sample sees another.

    lengths ─▶ pack: first fit decreasing, into budgets ─▶ packs of sample numbers ─▶ Packed: flat arrays

Positions begin at 0 again with each sample and `cu_seqlens` says where each begins: what variable-length attention
needs to keep them apart. Nothing is cut and nothing is padded.

First fit decreasing needs at most 11/9 of the fewest packs possible, and 6/9 of one (Dósa, "The tight bound of first
fit decreasing bin-packing algorithm is FFD(I) <= 11/9 OPT(I) + 6/9", 2007).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from silva.train.sample import Flags, Floats, Ids, Sample, SampleError


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Packed:
    """S samples in a row, T ids in all. Arrays have shape (T,), `cu_seqlens` (S + 1,): sample s is
    `[cu_seqlens[s]:cu_seqlens[s + 1]]`. `numbers` are the samples' places in the list that was packed, `sequence` says
    for each id which of the S it belongs to, `positions` its place in it."""

    numbers: tuple[int, ...]
    ids: Ids
    mask: Flags
    drawn: Flags
    logprobs: Floats
    advantages: Floats
    weights: Floats
    positions: npt.NDArray[np.int32]
    sequence: npt.NDArray[np.int32]
    cu_seqlens: npt.NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def lengths(self) -> npt.NDArray[np.int32]:
        """Ids of each sample, shape (S,)."""
        return np.diff(self.cu_seqlens)


def pack(lengths: Sequence[int], budget: int) -> list[list[int]]:
    """Which samples go together, by first fit decreasing; O(n log n). Each pack is in ascending order, packs by their
    first member; every number from 0 to n - 1 stands in exactly one.

    Raises:
        ValueError: a length is above the budget, or below 1; the message names its number.
    """
    for number, length in enumerate(lengths):
        if not 1 <= length <= budget:
            raise ValueError(f"number {number} has {length} ids; a pack holds 1 to {budget}")
    rooms = _Rooms(len(lengths), budget)
    packs: dict[int, list[int]] = {}
    for number in sorted(range(len(lengths)), key=lambda each: (-lengths[each], each)):
        packs.setdefault(rooms.take(lengths[number]), []).append(number)
    return sorted(sorted(members) for members in packs.values())


def packed(samples: Sequence[Sample], budget: int) -> list[Packed]:
    """The samples in as few rows of at most `budget` ids as first fit decreasing finds.

    Raises:
        SampleError: a sample is empty or longer than the budget; it is named.
    """
    for sample in samples:
        if not 1 <= len(sample) <= budget:
            raise SampleError(
                f"{sample.name}: {len(sample)} ids, a pack holds 1 to {budget}; raise the budget or truncate first"
            )
    return [_row([samples[number] for number in row], row) for row in pack([len(each) for each in samples], budget)]


def _row(samples: Sequence[Sample], numbers: Sequence[int]) -> Packed:
    lengths = np.array([len(each) for each in samples], np.int32)
    cu_seqlens = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    arrays: dict[str, Any] = {
        name: np.concatenate([getattr(each, name) for each in samples])
        for name in ("ids", "mask", "drawn", "logprobs", "advantages", "weights")
    }
    return Packed(
        **arrays,
        numbers=tuple(numbers),
        positions=(np.arange(cu_seqlens[-1]) - np.repeat(cu_seqlens[:-1], lengths)).astype(np.int32),
        sequence=np.repeat(np.arange(len(samples), dtype=np.int32), lengths),
        cu_seqlens=cu_seqlens,
    )


class _Rooms:
    """Room left in each of n packs, as a tree of maxima: the first pack with enough of it is found in log n steps."""

    def __init__(self, n: int, budget: int) -> None:
        self._width = 1 << max(0, n - 1).bit_length()
        self._most = [budget] * (2 * self._width)

    def take(self, length: int) -> int:
        """Take room in the first pack that has it; return its number."""
        most, place = self._most, 1
        while place < self._width:
            place *= 2
            if most[place] < length:
                place += 1
        most[place] -= length
        number = place - self._width
        while place > 1:
            place //= 2
            most[place] = max(most[2 * place], most[2 * place + 1])
        return number

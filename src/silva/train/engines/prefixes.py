"""Samples laid out as the tree they are: what several have in common at their start is laid, and computed, once.

    rows of ids ─▶ radix tree over their prefixes ─▶ runs, one behind another ─▶ each row's places in them

Attempts at one task share its prompt, turns of one environment its instructions. What a network computes at a position
depends on the ids before it alone, so a run that several rows begin with has one value for all of them, and the
gradients of all of them add up in it. A run attends to the runs before it on its row's way and, causally, to itself.
With dropout, rows that share a run share its draw.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from silva.train.sample import Ids

Places = npt.NDArray[np.int64]

SHORTEST = 16
"""Ids in common below which rows are laid apart: a run costs a call in every layer."""


@dataclass(frozen=True, kw_only=True)
class Segment:
    """One run of positions [start, stop). `before` are the bounds of the runs in front of it on its way, root first."""

    start: int
    stop: int
    before: tuple[tuple[int, int], ...] = ()

    @property
    def seen(self) -> int:
        """Positions in front of it on its way."""
        return sum(stop - start for start, stop in self.before)


@dataclass(frozen=True, kw_only=True)
class Layout:
    """T positions. `ids` and `positions` (T,): what stands there, and how deep on its way; `segments` cover 0 to T in
    order; `places[r]` (length of row r,) is where each id of the row stands."""

    ids: Ids
    positions: npt.NDArray[np.int64]
    segments: tuple[Segment, ...]
    places: tuple[Places, ...]


def common(left: Ids, right: Ids) -> int:
    """How many ids two rows have in common at their start."""
    length = min(len(left), len(right))
    apart = np.flatnonzero(left[:length] != right[:length])
    return int(apart[0]) if len(apart) else length


def lay_out(rows: Sequence[Ids]) -> Layout:
    """Lay rows out; O(ids · log rows)."""
    return _Laying(rows).done()


def in_order(rows: Sequence[Ids]) -> list[int]:
    """The rows' numbers, sorted by their ids: rows that share a prefix are neighbours."""
    return sorted(range(len(rows)), key=lambda number: rows[number].astype(">u4").tobytes())


@dataclass
class _Laying:
    rows: Sequence[Ids]
    segments: list[Segment] = field(default_factory=list)
    ids: list[Ids] = field(default_factory=list)
    positions: list[npt.NDArray[np.int64]] = field(default_factory=list)
    length: int = 0

    def done(self) -> Layout:
        self.places: list[Places] = [np.empty(len(row), np.int64) for row in self.rows]
        open_: list[tuple[list[int], int, int, tuple[tuple[int, int], ...]]] = [(in_order(self.rows), 0, 0, ())]
        while open_:
            rows, start, depth, before = open_.pop()
            depth += common(self.rows[rows[0]][depth:], self.rows[rows[-1]][depth:])
            if depth - start >= SHORTEST or len(rows) == 1:
                before = self._lay(rows, start, depth, before)
                start = depth
            ended = [number for number in rows if len(self.rows[number]) == depth]
            if ended and start < depth:
                self._lay(ended, start, depth, before)
            on = [number for number in rows if len(self.rows[number]) > depth]
            heads = np.array([self.rows[number][depth] for number in on])
            bounds = [0, *(np.flatnonzero(np.diff(heads)) + 1).tolist(), len(on)] if on else []
            parts = [on[low:high] for low, high in itertools.pairwise(bounds)]
            open_.extend((part, start, depth, before) for part in reversed(parts))
        nothing = np.empty(0, np.int32)
        return Layout(
            ids=np.concatenate([nothing, *self.ids]).astype(np.int32),
            positions=np.concatenate([nothing, *self.positions]).astype(np.int64),
            segments=tuple(self.segments),
            places=tuple(self.places),
        )

    def _lay(
        self, rows: Sequence[int], start: int, stop: int, before: tuple[tuple[int, int], ...]
    ) -> tuple[tuple[int, int], ...]:
        """Lay ids [start, stop) of rows that agree in them; return the way up to there."""
        if start == stop:
            return before
        bounds = (self.length, self.length + stop - start)
        self.segments.append(Segment(start=bounds[0], stop=bounds[1], before=before))
        self.ids.append(self.rows[rows[0]][start:stop])
        self.positions.append(np.arange(start, stop))
        self.length = bounds[1]
        way = (*before, bounds)
        for number in rows:
            self.places[number][start:stop] = np.arange(*bounds)
        return way

"""Preference pairs from the samples of one task: the same context, two different actions, different rewards after them.

    a group's samples ─▶ better and worse ─▶ where they part ─▶ Pair: shared context | chosen action | rejected action

Two walks from one prompt share all ids up to the first action in which they differ; there the pair is cut. So both
sides answer the same context, no id of the environment stands in an answer, and the loss lies on one action each
(step-wise preference, as in SPORT). Where a prompt itself differs there is no pair.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product

import msgspec
import numpy as np

from silva.train.sample import Sample, SampleError


class Pair(msgspec.Struct, frozen=True, kw_only=True):
    """Two answers to one context, by their samples: `ids[:start]` is the context both share, `chosen.ids[start:stop]`
    the better answer, `rejected.ids[start:stop]` the worse, each with its own stop."""

    chosen: Sample
    rejected: Sample
    start: int
    chosen_stop: int
    rejected_stop: int


def pairs(samples: Iterable[Sample], margin: float = 0.0) -> list[Pair]:
    """The pairs of each task of each run: its best try against its worst, its second against the second worst, and so
    on, where the rewards lie more than `margin` apart and the walks part at an action that carries loss in both. A try
    in several segments counts once, and parts from another in one of them.

    Raises:
        SampleError: a sample has no reward; it is named.
    """
    tasks: dict[tuple[str, str], dict[object, list[Sample]]] = {}
    for number, sample in enumerate(samples):
        if sample.reward != sample.reward:
            raise SampleError(f"{sample.name}: has no reward, so it is neither better nor worse; leave it out")
        # Without a trajectory's id nothing says which samples are of one try.
        of_try = (sample.trajectory_id, sample.index) if sample.trajectory_id else number
        tasks.setdefault((sample.run_id, sample.task_id), {}).setdefault(of_try, []).append(sample)
    found: list[Pair] = []
    for tries in tasks.values():
        ranked = sorted(tries.values(), key=lambda each: (-each[0].reward, each[0].index, each[0].segment))
        for better, worse in zip(ranked[: len(ranked) // 2], reversed(ranked), strict=False):
            if better[0].reward - worse[0].reward > margin:
                made = (parting(chosen, rejected) for chosen, rejected in product(better, worse))
                found += [pair for pair in made if pair is not None][:1]
    return found


def parting(chosen: Sample, rejected: Sample) -> Pair | None:
    """The pair at the first action in which two samples differ; None where they differ elsewhere, or not at all, or
    where that action carries no loss in one of them."""
    shorter = min(len(chosen), len(rejected))
    differs = np.flatnonzero(chosen.ids[:shorter] != rejected.ids[:shorter])
    place = int(differs[0]) if len(differs) else shorter
    better, worse = _action(chosen, place), _action(rejected, place)
    if better is None or worse is None or better[0] != worse[0] or better[1] == worse[1] == place:
        return None  # they part in what was said to them, not in what was answered
    if not (chosen.mask[better[0] : better[1]].all() and rejected.mask[worse[0] : worse[1]].all()):
        return None
    return Pair(chosen=chosen, rejected=rejected, start=better[0], chosen_stop=better[1], rejected_stop=worse[1])


def _action(sample: Sample, place: int) -> tuple[int, int] | None:
    # Where one answer begins as the other ends, the shorter one parts at its end, which is still that action.
    spans: Sequence[tuple[int, int]] = sample.spans()
    return next(((start, stop) for start, stop in spans if start <= place < stop), None) or next(
        ((start, stop) for start, stop in spans if stop == place), None
    )

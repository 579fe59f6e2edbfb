"""A preference: a chosen and a rejected sample that go on from the same context, with loss where they are compared.

    Preference(chosen, rejected)      one prompt, then two whole attempts: all positions with loss count
    Preference.step(chosen, rejected) one context, then two candidate actions: of either sample its last action alone
                                      (Iterative Trajectory Exploration for Multimodal Agents, "SPORT", 2025,
                                      arXiv 2504.21561)
    Preference.of(pair)               two walks cut at the action in which they part (`silva.train.pairs`)

The context is what stands before the first position with loss. Where the two contexts differ the preference is refused:
their difference would be learned as the reason for it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from silva.train.algorithms.errors import PairError
from silva.train.pairs import Pair
from silva.train.sample import Sample


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Preference:
    """`chosen` is to become likelier than `rejected`.

    Raises:
        PairError: a side has no loss, the contexts differ, or both sides are the same.
    """

    chosen: Sample
    rejected: Sample

    def __post_init__(self) -> None:
        contexts = []
        for side, sample in (("chosen", self.chosen), ("rejected", self.rejected)):
            if not sample.mask.any():
                raise PairError(f"pair: the {side} side, {sample.name}, has no position with loss")
            contexts.append(sample.ids[: int(sample.mask.argmax())])
        where = f"pair of {self.chosen.name} and {self.rejected.name}"
        if not np.array_equal(*contexts):
            raise PairError(f"{where}: the contexts before their first actions differ")
        if np.array_equal(self.chosen.ids, self.rejected.ids):
            raise PairError(f"{where}: both sides are the same")

    @staticmethod
    def step(chosen: Sample, rejected: Sample) -> Preference:
        """The preference between two last actions; what comes before must be the same in both.

        Raises:
            PairError: as above; or a last action that supervision masked, or none.
        """
        return Preference(chosen=_last_action(chosen), rejected=_last_action(rejected))

    @staticmethod
    def of(pair: Pair) -> Preference:
        """The preference between the two actions at which a pair parts; what follows them is cut off.

        Raises:
            PairError: as above.
        """
        return Preference(
            chosen=_action_alone(pair.chosen, pair.start, pair.chosen_stop),
            rejected=_action_alone(pair.rejected, pair.start, pair.rejected_stop),
        )


def laid_out(preferences: Iterable[Preference]) -> list[Sample]:
    """Their samples in the order `collate(…, pairs=True)` takes them: chosen, rejected, chosen, rejected, …"""
    return [sample for preference in preferences for sample in (preference.chosen, preference.rejected)]


def _last_action(sample: Sample) -> Sample:
    spans = sample.spans()
    if not spans:
        raise PairError(f"pair: {sample.name} has no action")
    start, stop = spans[-1]
    if not sample.mask[start:stop].all():
        raise PairError(f"pair: the last action of {sample.name} is masked")
    return _action_alone(sample, start, stop)


def _action_alone(sample: Sample, start: int, stop: int) -> Sample:
    mask = sample.mask[:stop].copy()
    mask[:start] = False
    return replace(
        sample,
        ids=sample.ids[:stop],
        mask=mask,
        drawn=sample.drawn[:stop],
        logprobs=sample.logprobs[:stop],
        advantages=sample.advantages[:stop],
        weights=sample.weights[:stop],
        actions=tuple(action for action in sample.actions if action.stop <= stop),
        images=tuple(image for image in sample.images if image.position < stop),
    )

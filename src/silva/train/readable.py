"""What a run can train on of what it was given: a sample that the weights cannot read drops out by name.

Prepared ─▶ engine.check, sample by sample ─▶ Prepared without those at fault (a pair goes as a whole)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from silva.train.algorithms import Algorithm
from silva.train.sample import Sample, SampleError
from silva.train.sources import Prepared

if TYPE_CHECKING:
    from silva.train.engines.local import LocalEngine


def readable(
    prepared: Prepared, measured: Sequence[Sample], engine: LocalEngine, algorithm: Algorithm
) -> tuple[Prepared, list[Sample]]:
    """The groups and the held-out samples that an engine can read; `dropped` names the others.

    Raises:
        SampleError: none of the groups can be read; it tells the first fault.
        BatchError, UsageError: a fault of the run as a whole, as `LocalEngine.check` tells it.
    """
    whole = "pairs" in algorithm.needs
    dropped: list[str] = []

    def kept(samples: Sequence[Sample]) -> list[Sample]:
        good: list[Sample] = []
        for sample in samples:
            try:
                engine.check([sample], algorithm)
                good.append(sample)
            except SampleError as error:
                dropped.append(str(error))
        return [] if whole and len(good) < len(samples) else good

    groups = [group for group in map(kept, prepared.groups) if group]
    if not groups:
        raise SampleError(dropped[0])
    if whole:
        pairs = [kept(measured[at : at + 2]) for at in range(0, len(measured), 2)]
        held_out = [sample for pair in pairs for sample in pair]
    else:
        held_out = kept(measured)
    return replace(prepared, groups=groups, dropped=(*prepared.dropped, *dropped)), held_out

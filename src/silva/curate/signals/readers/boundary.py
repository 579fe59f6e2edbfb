"""Boundary: a group of attempts at one task of which some succeed and some fail."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from pydantic import Field

from silva.curate.signals.attempt import Attempt, by_group, parting
from silva.curate.signals.reader import Reader, reader
from silva.curate.signals.signal import Signal


@reader
class Boundary(Reader):
    """CoEvolve's: one score of the group lies above `threshold` and one below. Every attempt of the group is marked,
    where it leaves those that ended otherwise."""

    name: ClassVar[str] = "boundary"
    summary: ClassVar[str] = "of the attempts at the task at one moment some succeed and some fail"

    threshold: float = Field(default=0.5, gt=0, lt=1)

    def read(self, attempts: Sequence[Attempt], since: int) -> Iterable[Signal]:
        """See `Reader.read`."""
        for (step, _), group in sorted(by_group(attempts).items(), key=lambda each: each[0]):
            if step < since:
                continue
            above = [each for each in group if each.score is not None and each.score > self.threshold]
            below = [each for each in group if each.score is not None and each.score < self.threshold]
            if not above or not below:
                continue
            for each in group:
                if each not in above and each not in below:
                    continue
                turn = parting(each, above if each in below else below)
                yield self.signal(
                    each,
                    node=turn.action.id if turn is not None else "",
                    turn=turn.number if turn is not None else 0,
                    focus="what is done here decides between success and failure",
                    evidence={"score": each.score, "succeeded": len(above), "of": len(above) + len(below)},
                )

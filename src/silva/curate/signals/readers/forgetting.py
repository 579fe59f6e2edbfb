"""Forgetting: a task that was solved not long ago and is not solved now."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import ClassVar

from pydantic import Field

from silva.curate.signals.attempt import Attempt, by_group, parting
from silva.curate.signals.reader import Reader, reader
from silva.curate.signals.signal import Signal


@reader
class Forgetting(Reader):
    """CoEvolve's: of the last `window` scores at a task one is at least `threshold`, and the present one is below.
    Attempts of one step are one moment: none of them is another's past."""

    name: ClassVar[str] = "forgetting"
    summary: ClassVar[str] = "solved among the last attempts at the task, and not now"

    window: int = Field(default=5, ge=1)
    threshold: float = Field(default=0.5, gt=0, le=1)

    def read(self, attempts: Sequence[Attempt], since: int) -> Iterable[Signal]:
        """See `Reader.read`."""
        past: dict[str, deque[Attempt]] = {}
        for (step, task), group in sorted(by_group(attempts).items(), key=lambda each: each[0]):
            known = past.setdefault(task, deque(maxlen=self.window))
            solved = [each for each in known if (each.score or 0.0) >= self.threshold]
            for each in group if step >= since and solved else ():
                if each.score is None or each.score >= self.threshold:
                    continue
                turn = parting(each, solved)
                yield self.signal(
                    each,
                    node=turn.action.id if turn is not None else "",
                    turn=turn.number if turn is not None else 0,
                    focus="solved before; from here on it went another way",
                    evidence={"score": each.score, "solved": len(solved), "of": len(known)},
                )
            known.extend(each for each in group if each.score is not None)

"""Blamed: a turn that a person or a rule found bad."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar, Literal

from silva.curate.signals.attempt import Attempt
from silva.curate.signals.reader import Reader, reader
from silva.curate.signals.signal import Signal


@reader
class Blamed(Reader):
    """Of each attempt the first turn whose deciding judgement takes its loss and is of one of `sources`."""

    name: ClassVar[str] = "blamed"
    summary: ClassVar[str] = "a turn that a person or a rule found bad"

    sources: tuple[Literal["person", "rule", "model"], ...] = ("person", "rule")

    def read(self, attempts: Sequence[Attempt], since: int) -> Iterable[Signal]:
        """See `Reader.read`."""
        for each in attempts:
            if each.step < since:
                continue
            for turn in each.walk.turns:
                judged = each.judged.get(turn.action.id)
                if judged is None or not judged.masks or judged.source not in self.sources:
                    continue
                yield self.signal(
                    each,
                    node=turn.action.id,
                    turn=turn.number,
                    focus=judged.reason or "found bad",
                    evidence={"by": judged.by, "source": judged.source, "verdict": judged.verdict},
                )
                break

"""Checkers that are heads: what each needs, and how scores become findings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import ClassVar

from silva.curate.audit.checker import Family, SetChecker
from silva.curate.audit.finding import Finding, NotChecked
from silva.curate.audit.heads.head import read_head
from silva.curate.audit.heads.measured import Memory, measure
from silva.curate.audit.heads.specs import SPECS
from silva.curate.audit.heads.views import Unit
from silva.curate.rows import Row
from silva.errors import SilvaError
from silva.models.embedding import open_embedder

_ROWS = 64
_LEAST = 0.02
"""Lower scores are no findings: they say that there is nothing."""


def head_version(name: str) -> str:
    """The version of a head's weights; "none" where there are none yet."""
    try:
        return read_head(name).version
    except SilvaError:
        return "none"


@cache
def memory(spec: str) -> Memory:
    """Embeddings that all heads of a process share."""
    return Memory(open_embedder(spec))


class HeadChecker(SetChecker):
    """A checker by a trained head. It takes rows a few at a time; one whose texts say nothing to it is not checked."""

    family = Family.HEADS
    whole = False
    needs = ("the embedder minilm (extra embed)",)
    head: ClassVar[str]
    silent: ClassVar[str] = "it says nothing that this head reads"

    def missing(self) -> str:
        """See `Checker`."""
        try:
            head = read_head(self.head)
            embedder = self._memory().embedder
        except SilvaError as error:
            return str(error)
        if embedder.digest != head.embedder:
            return f"its weights are for {head.embedder[:40]}, the embedder here is {embedder.digest[:40]}"
        return ""

    def check(self, rows: Sequence[Row]) -> Iterator[Finding | NotChecked]:
        """See `SetChecker`."""
        spec, head = SPECS[self.head], read_head(self.head)
        least = max(_LEAST, float(head.told.get("least", 0.0)))
        for begin in range(0, len(rows), _ROWS):
            part = rows[begin : begin + _ROWS]
            measured = measure(spec, part, self._memory())
            seen = {number for number, row in enumerate(part) if next(iter(spec.view(row)), None) is not None}
            if spec.kind == "preference":
                seen = set(measured.rows)
            yield from (
                NotChecked(row_id=row.id, why=self.silent) for number, row in enumerate(part) if number not in seen
            )
            scores = head.score(measured.dense, measured.counts if len(measured.counts) else None) if seen else []
            best: dict[tuple[int, str], tuple[float, Unit]] = {}
            for number, unit, score in zip(measured.rows, measured.units, scores, strict=False):
                key = number, unit.node.id
                if score >= least and (key not in best or score > best[key][0]):
                    best[key] = float(score), unit
            for (number, _), (score, unit) in best.items():
                yield self.finding(
                    part[number],
                    unit.node,
                    "text",
                    unit.start,
                    unit.stop,
                    score=round(score, 4),
                    evidence=self.told(unit),
                )

    def told(self, unit: Unit) -> str:
        """What a finding shows of what was scored."""
        left = f"{_short(unit.left)} / " if unit.left else ""
        return f"{left}{_short(unit.right)}"

    def _memory(self) -> Memory:
        return memory(self.settings.embedder or "minilm")


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 100 else f"{line[:99]}…"

"""Near copies of tasks that are kept for tests: data with them in it makes every later figure worthless."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from silva.curate.audit.checker import Family, SetChecker, checker
from silva.curate.audit.finding import Finding, NotChecked
from silva.curate.rows import Row, read

_WORD = re.compile(r"\w+", re.UNICODE)
RUN = 8
"""Words in a row that a piece of a task has; a task of fewer words is one piece."""


@checker
class NearCopies(SetChecker):
    """Rows that hold pieces of a held-out task, eight words in a row each. Option `against`: the file of the tasks; a
    row's score is the share of the pieces of the task it holds most of."""

    name = "near_copy"
    risk = "held_out"
    family = Family.DATASET
    summary = "rows that hold most of a task that is kept for tests"
    version = "1"
    needs = ("a file of held-out tasks (its option against)",)

    def missing(self) -> str:
        """See `Checker`."""
        return (
            "" if self.options.get("against") else "no held-out tasks are named: set its option against to their file"
        )

    def check(self, rows: Sequence[Row]) -> Iterator[Finding | NotChecked]:
        """See `SetChecker`."""
        source: Any = self.options["against"]
        tasks = [(task.id, frozenset(_pieces(task.prompt or task.text))) for task in read(str(source))]
        holding: dict[str, list[int]] = defaultdict(list)
        for number, (_, pieces) in enumerate(tasks):
            for piece in pieces:
                holding[piece].append(number)
        sizes = sorted({piece.count(" ") + 1 for piece in holding})
        for row in rows:
            held: dict[int, int] = defaultdict(int)
            for piece in {piece for size in sizes for piece in _pieces(row.text, size)}:
                for number in holding.get(piece, ()):
                    held[number] += 1
            shares = ((count / len(tasks[number][1]), -number) for number, count in held.items())
            share, number = max(shares, default=(0.0, 0))
            if share > 0:
                told = f"holds {share:.0%} of the held-out task {tasks[-number][0]}"
                yield self.finding(row, score=round(share, 4), evidence=told)


def _pieces(text: str, run: int = RUN) -> Iterator[str]:
    said = _WORD.findall(text.lower())
    size = min(run, len(said))
    for at in range(len(said) - size + 1 if size else 0):
        yield " ".join(said[at : at + size])

"""Checkers of single rows over a Lance table in parts, by Daft: what an audit of very many rows begins with.

    Lance table ─▶ Daft: each worker makes the checkers once and asks them about its rows ─▶ findings by row number

Checkers that look at all rows together (`SetChecker`) need the whole and are refused here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pyarrow as pa

from silva.curate.audit.asking import ask
from silva.curate.audit.checker import RowChecker, make
from silva.curate.daft.frame import Frame
from silva.curate.rows.reading import row_of
from silva.errors import UsageError

FINDINGS = "findings"


@dataclass
class CheckWork:
    """Checkers as work. `asked`: whether the first column is a question. It makes JSON: the findings of a row, and the
    reason of each checker that could not look at it."""

    checkers: tuple[str, ...]
    reads: Sequence[str]
    asked: bool
    kind: pa.DataType = field(default_factory=pa.string)
    _made: Any = field(default=None, repr=False)

    def __call__(self, *columns: list[Any]) -> pa.Array:
        """What is found in each row."""
        if self._made is None:
            self._made = make(self.checkers)
        return pa.array([self._one(*values) for values in zip(*columns, strict=True)], pa.string())

    def _one(self, *values: str | None) -> str:
        told = {"question": values[0], "answer": values[1]} if self.asked else {"text": values[0]}
        row = row_of(told, "row")
        if isinstance(row, str):
            return msgspec.json.encode({"findings": [], "unchecked": {"": row}}).decode()
        answers = {each.name: ask(each, [row]) for each in self._made}
        found = [finding for answer in answers.values() for finding in answer.findings]
        unchecked = {name: why for name, answer in answers.items() for why in answer.unchecked.values()}
        return msgspec.json.encode({"findings": found, "unchecked": unchecked}).decode()


def check_table(
    table: str, answer: str, checkers: Sequence[str], question: str = "", on: str = "daft", workers: int | None = None
) -> pa.Table:
    """Ask checkers about the rows of a Lance table.

    Args:
        table: a folder NAME.lance, or its address.
        answer: the column of answers, or of texts.
        checkers: names, families or risks, as `silva audit --checker` takes them.
        question: the column of questions; "" for none.
        on: where; see `silva.curate.daft.frame`.
        workers: processes on this machine.

    Returns:
        Row numbers, and `findings` as `CheckWork` makes them, in the table's order.

    Raises:
        SilvaError: there is no such table, column or checker, one needs all rows at once, or Daft is missing.
    """
    made = make(checkers)
    whole = [each.name for each in made if not isinstance(each, RowChecker)]
    if whole:
        raise UsageError(f"on={on}: {', '.join(whole)} look at all rows together and run here only")
    reads = [each for each in (question, answer) if each]
    work = CheckWork(tuple(each.name for each in made), reads, bool(question))
    return Frame(table, on, workers).make({FINDINGS: work})

"""Asking a checker about rows, whatever its shape and whatever goes wrong.

    checker, rows ─▶ ask ─▶ Answer: findings, and for every row without an answer the reason

A checker that raises has not checked: what it was asked about then counts as not checked, with the error as the reason,
and other checkers go on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from time import process_time
from typing import TYPE_CHECKING

from silva.curate.audit.checker import Checker, RowChecker, SetChecker
from silva.curate.audit.finding import Finding, NotChecked, parts
from silva.redact import redact

if TYPE_CHECKING:
    from silva.curate.rows import Row

_LONGEST = 300
"""Characters of a reason."""


@dataclass(slots=True)
class Answer:
    """What a checker said of some rows. `unchecked`: the reason, by row id. `seconds` of processor time it took."""

    findings: list[Finding] = field(default_factory=list[Finding])
    unchecked: dict[str, str] = field(default_factory=dict[str, str])
    seconds: float = 0.0

    def scores(self, rows: Iterable[Row]) -> dict[str, float | None]:
        """The highest score of each row, 0 without a finding, None where it was not checked."""
        best: dict[str, float | None] = {row.id: None if row.id in self.unchecked else 0.0 for row in rows}
        for each in self.findings:
            known = best.get(each.row_id)
            if known is not None:
                best[each.row_id] = max(known, each.score)
        return best


def ask(checker: Checker, rows: Sequence[Row]) -> Answer:
    """Ask a checker about rows. Every row has its findings, none, or a reason why it was not checked."""
    answer, began = Answer(), process_time()
    why = missing(checker)
    if why:
        answer.unchecked = {row.id: why for row in rows}
        return answer
    answer.unchecked = {row.id: long for row in rows if (long := _long(row, checker.settings.longest))}
    rows = [row for row in rows if row.id not in answer.unchecked] if answer.unchecked else rows
    if not rows:
        return answer
    if isinstance(checker, RowChecker):
        for row in rows:
            try:
                if next(checker.nodes(row), None) is None:
                    answer.unchecked[row.id] = f"nobody in it is {' or '.join(sorted(checker.roles)) or 'one it reads'}"
                    continue
                said = checker.check(row)
                _take(answer, [said] if isinstance(said, NotChecked) else list(said), row.id)
            except Exception as error:  # noqa: BLE001 - a checker of a package may raise anything; it is told
                answer.unchecked[row.id] = _reason(error)
    elif isinstance(checker, SetChecker):
        try:
            found = list(checker.check(rows))
        except Exception as error:  # noqa: BLE001 - as above
            answer.unchecked |= {row.id: _reason(error) for row in rows}
        else:
            for each in found:
                if isinstance(each, NotChecked) and not each.row_id:
                    answer.unchecked.update((row.id, each.why) for row in rows)
                else:
                    _take(answer, [each], each.row_id)
    answer.seconds = process_time() - began
    return answer


def _long(row: Row, most: int) -> str:
    for node in (*row.nodes, *row.rejected):
        for _, text in parts(node):
            if len(text) > most:
                return (
                    f"a text of {len(text)} characters is longer than the {most} that are looked at (settings.longest)"
                )
    return ""


def missing(checker: Checker) -> str:
    """Why a checker cannot be asked here; "" where it can."""
    try:
        return checker.missing()
    except Exception as error:  # noqa: BLE001 - as above
        return _reason(error)


def _take(answer: Answer, said: Iterable[Finding | NotChecked], row_id: str) -> None:
    for each in said:
        if isinstance(each, NotChecked):
            answer.unchecked[each.row_id or row_id] = each.why
        else:
            answer.findings.append(each)


def _reason(error: Exception) -> str:
    text = " ".join(str(error).split())
    return redact(f"{type(error).__name__}: {text}"[:_LONGEST])

"""An audit of a Lance table in parts, by Daft: workers ask the checkers of single rows, all else is done here.

Lance table ─▶ Daft: each worker makes the checkers once and asks them about its rows ─▶ answers by row
  ─▶ `silva.curate.audit.auditing`: checkers of all rows together, thresholds, verdicts, prevalence, score
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pyarrow as pa
from msgspec.structs import replace

from silva.curate.audit.asking import Answer, ask
from silva.curate.audit.auditing import BATCH, Answered
from silva.curate.audit.checker import Checker, RowChecker, Settings, make
from silva.curate.audit.config import AuditConfig
from silva.curate.audit.finding import Finding
from silva.curate.daft.frame import ROW, Frame
from silva.curate.rows import Row
from silva.curate.rows.reading import row_of
from silva.errors import UsageError
from silva.tree import Record

FINDINGS = "findings"


class Said(Record, frozen=True, kw_only=True):
    """What checkers say of one row: what they found, why one could not look at it, and their seconds of processor
    time. `unread`: why it is no row."""

    findings: list[Finding] = msgspec.field(default_factory=list[Finding])
    unchecked: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    seconds: dict[str, float] = msgspec.field(default_factory=dict[str, float])
    unread: str = ""


@dataclass
class CheckWork:
    """Checkers as work. It makes JSON: a `Said` for each row."""

    checkers: tuple[str, ...]
    settings: Settings
    reads: Sequence[str]
    kind: pa.DataType = field(default_factory=pa.string)
    _made: Any = field(default=None, repr=False)

    def __call__(self, *columns: list[Any]) -> pa.Array:
        """What is said of each row."""
        if self._made is None:
            self._made = make(self.checkers, self.settings)
        read = [_row(values) for values in zip(*columns, strict=True)]
        rows = [replace(row, id=str(place)) for place, row in enumerate(read) if isinstance(row, Row)]
        answers = {each.name: ask(each, rows) for each in self._made}
        said = [Said(unread="" if isinstance(row, Row) else row) for row in read]
        for name, answer in answers.items():
            for each in answer.findings:
                said[int(each.row_id)].findings.append(each)
            for place, why in answer.unchecked.items():
                said[int(place)].unchecked[name] = why
            if said:
                said[0].seconds[name] = answer.seconds  # of all of them
        return pa.array([msgspec.json.encode(each).decode() for each in said], pa.string())


def _row(values: Sequence[str | None]) -> Row | str:
    """The row of a question and an answer, or of a text alone; its nodes are the same wherever it is made."""
    names = ("question", "answer") if len(values) > 1 else ("text",)
    return row_of(dict(zip(names, values, strict=True)), "row")


class Table:
    """The table of an audit's configuration.

    Raises:
        UsageError: there is no such table or column, or `on` says something else.
        MissingError: Daft is not installed.
    """

    def __init__(self, config: AuditConfig) -> None:
        self._config = config
        said = "workers" in config.model_fields_set  # one process is what is said of an audit here
        self._frame = Frame(config.source, config.on, config.workers if said else None)
        self._frame.check(self._kept)
        self.notes: list[str] = []
        """What could not be read, once it was asked for."""

    @property
    def _kept(self) -> list[str]:
        columns = self._config.columns
        return [*columns.read, *([columns.id] if columns.id else [])]

    def answered(self, checkers: Sequence[Checker]) -> Iterator[Answered]:
        """Its rows, some at a time, with what those of the checkers say that look at single rows.

        Raises:
            UsageError: it holds no row.
        """
        columns = self._config.columns
        names = tuple(each.name for each in checkers if isinstance(each, RowChecker))
        work = CheckWork(names, self._config.settings, columns.read)
        made = self._frame.make({FINDINGS: work} if names else {}, self._kept, self._config.limit)
        if not made.num_rows:
            raise UsageError(f"{self._config.source}: holds no row")
        for batch in made.to_batches(BATCH):
            rows: list[Row] = []
            answers = {name: Answer() for name in names}
            for told in batch.to_pylist():
                name = str(told[columns.id or ROW])
                if names:
                    _take(answers, msgspec.json.decode(told[FINDINGS], type=Said), name)
                row = _row([told[each] for each in columns.read])
                if isinstance(row, str):
                    self.notes.append(f"row {name}: {row.removeprefix('row ')}")
                else:
                    rows.append(replace(row, id=name))
            yield rows, answers


def _take(answers: dict[str, Answer], said: Said, row_id: str) -> None:
    for each in said.findings:
        answers[each.checker].findings.append(replace(each, row_id=row_id))
    for name, why in said.unchecked.items():
        answers[name].unchecked[row_id] = why
    for name, seconds in said.seconds.items():
        answers[name].seconds += seconds

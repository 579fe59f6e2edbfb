"""Samples: what scorers see of rows, however many: a question, an answer, and the row they came from.

    rows ─▶ question: what is asked before the first reply · answer: all that the assistant says (a text is all answer)
    columns of a file or a Lance table ─▶ the same, without an object a row

A sample is made when it is asked for; what lies in memory is an Arrow table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa

from silva.curate.rows.row import Kind, said
from silva.errors import UsageError
from silva.tree import Record, digest

if TYPE_CHECKING:
    from silva.curate.rows import Row

NO_ANSWER = "nothing is answered in it"
NO_QUESTION = "nothing is asked in it"
NO_WALK = "it is no trajectory"


class Sample(Record, frozen=True, kw_only=True, gc=True):
    """One row as scorers see it. `row` is None where only columns were read; `verdicts` is what audits said of a walk,
    by risk, where the scorers that are asked heed it."""

    id: str
    question: str
    answer: str
    row: Row | None = None
    verdicts: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])

    @property
    def key(self) -> str:
        """A digest of what is said in it: equal words have equal scores."""
        return digest(self.question, self.answer)

    @property
    def text(self) -> str:
        """Question and answer."""
        return f"{self.question}\n{self.answer}" if self.question else self.answer


def sample_of(row: Row) -> Sample:
    """What scorers see of a row."""
    if row.kind is Kind.TEXT:
        return Sample(id=row.id, question="", answer=row.text, row=row)
    replies = (said(node) for node in row.nodes if node.message.role == "assistant")
    return Sample(id=row.id, question=row.prompt, answer="\n".join(filter(None, replies)), row=row)


class Samples:
    """Samples in a fixed order.

    Args:
        table: columns `id`, `question` and `answer`, all text.
        rows: the rows they were read from, in this order; none where only columns were.
    """

    def __init__(self, table: pa.Table, rows: Sequence[Row] = ()) -> None:
        self.table = table
        self.rows = rows
        self.verdicts: Mapping[str, Mapping[str, str]] = {}
        """What audits said of rows, by their ids and by risk."""

    @classmethod
    def of_rows(cls, rows: Iterable[Row]) -> Samples:
        """The samples of rows."""
        kept = list(rows)
        made = [sample_of(row) for row in kept]
        columns = {name: [getattr(each, name) for each in made] for name in ("id", "question", "answer")}
        arrays = {name: pa.array(_clean(values), pa.large_string()) for name, values in columns.items()}
        return cls(pa.table(arrays), kept)

    def __len__(self) -> int:
        return self.table.num_rows

    def at(self, places: Sequence[int]) -> list[Sample]:
        """The samples at some places."""
        whole = len(places) == len(self) and all(place == at for at, place in enumerate(places))
        part = self.table if whole else self.table.take(pa.array(places, pa.int64()))
        columns = (part.column(name).to_pylist() for name in ("id", "question", "answer"))
        return [
            Sample(
                id=name,
                question=question or "",
                answer=answer or "",
                row=self.rows[place] if self.rows else None,
                verdicts=self.verdicts.get(name, {}),
            )
            for place, name, question, answer in zip(places, *columns, strict=True)
        ]

    def texts(self) -> list[str]:
        """Question and answer of each."""
        return [each.text for each in self.at(range(len(self)))]


def of_columns(table: pa.Table, answer: str, question: str = "", name: str = "") -> Samples:
    """Samples of columns.

    Args:
        table: any table.
        answer: its column of answers, or of texts.
        question: its column of questions; "" for none.
        name: its column of ids; "" numbers the rows.

    Raises:
        UsageError: there is no such column, or it holds no text.
    """

    def column(wanted: str) -> pa.ChunkedArray:
        if wanted not in table.column_names:
            raise UsageError(f"columns: there is no column {wanted!r}; there are {', '.join(table.column_names[:12])}")
        kind = table.schema.field(wanted).type
        if not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)):
            raise UsageError(f"columns: {wanted} is {kind}, not text")
        return table.column(wanted).cast(pa.large_string())

    count = table.num_rows
    ids = table.column(name).cast(pa.large_string()) if name in table.column_names else None
    if name and ids is None:
        column(name)
    if ids is None:
        ids = pa.chunked_array([pa.array(range(count), pa.int64()).cast(pa.large_string())])
    asked = column(question) if question else pa.chunked_array([pa.array([""] * count, pa.large_string())])
    return Samples(pa.table({"id": ids, "question": asked, "answer": column(answer)}))


def _clean(values: list[str]) -> list[str]:
    """Texts as Arrow can hold them: half a surrogate pair, which JSON may hold, has no bytes."""
    return [each if each.isascii() else each.encode("utf-8", "replace").decode() for each in values]

"""Scores and selection of a Lance table past one machine: rows' own columns by workers, all that needs every row here.

Lance table ─▶ Daft: score of each row, its vector, the mark of its words ─▶ small columns ─▶ ranks, quotas ─▶ kept rows
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from silva.curate.daft.frame import ROW, Frame
from silva.curate.value.cache import cache_folder
from silva.curate.value.config import ScoreConfig, SelectConfig
from silva.curate.value.sample import Samples
from silva.curate.value.scorer import Floats, Scorer, SetScorer, make
from silva.curate.value.scoring import Scores, resolve, score
from silva.curate.value.selection.duplicates import PERMUTATIONS, key, signatures
from silva.curate.value.selection.embedding import NARROW, embed
from silva.curate.value.selection.selecting import Selection, select
from silva.errors import UsageError
from silva.models.embedding import open_embedder

_SCORE = pa.struct([("value", pa.float64()), ("note", pa.string())])


@dataclass
class ScoreWork:
    """A scorer as work. `asked`: whether it has a question; `folder`: where its scores are kept, on the worker's
    machine."""

    name: str
    options: dict[str, Any]
    reads: Sequence[str]
    asked: bool
    folder: str | None
    kind: pa.DataType = _SCORE
    _scorer: Any = field(default=None, repr=False)

    def __call__(self, *columns: list[Any]) -> pa.Array:
        """The score and the note of each row."""
        if self._scorer is None:
            self._scorer = make(self.name, self.options)
        made = score(_samples(columns, self.asked), [self._scorer], Path(self.folder) if self.folder else None, 1)[
            self.name
        ]
        notes = pa.array([made.notes.get(place) for place in range(len(made.values))], pa.string())
        return pa.StructArray.from_arrays([pa.array(made.values, pa.float64()), notes], ["value", "note"])


@dataclass
class VectorWork:
    """An embedder as work; vectors are projected to few dimensions, the same on every worker."""

    embedder: str
    seed: int
    reads: Sequence[str]
    asked: bool
    kind: pa.DataType = field(default_factory=lambda: pa.list_(pa.float32(), NARROW))
    _embedder: Any = field(default=None, repr=False)

    def __call__(self, *columns: list[Any]) -> pa.Array:
        """The vector of each row."""
        if self._embedder is None:
            self._embedder = open_embedder(self.embedder)
        found = embed(_samples(columns, self.asked), self._embedder, self.seed, narrow=True)
        return pa.FixedSizeListArray.from_arrays(pa.array(found.ravel(), pa.float32()), NARROW)


@dataclass
class MarkWork:
    """What copies are found by: a digest of the words, or their MinHash."""

    how: str
    reads: Sequence[str]
    asked: bool

    @property
    def kind(self) -> pa.DataType:
        """A text, or as many numbers as there are permutations."""
        return pa.string() if self.how == "exact" else pa.list_(pa.uint32(), PERMUTATIONS)

    def __call__(self, *columns: list[Any]) -> pa.Array:
        """The mark of each row."""
        texts = _samples(columns, self.asked).texts()
        if self.how == "exact":
            return pa.array([key(text) for text in texts], pa.string())
        return pa.FixedSizeListArray.from_arrays(pa.array(signatures(texts).ravel(), pa.uint32()), PERMUTATIONS)


def _samples(columns: Sequence[list[Any]], asked: bool) -> Samples:
    answers = [each or "" for each in columns[-1]]
    questions = [each or "" for each in columns[0]] if asked else [""] * len(answers)
    ids = [str(number) for number in range(len(answers))]
    arrays = {"id": ids, "question": questions, "answer": answers}
    return Samples(pa.table({name: pa.array(values, pa.large_string()) for name, values in arrays.items()}))


def score_past(config: ScoreConfig, more: dict[str, Any] | None = None) -> tuple[pa.Table, dict[str, Scores]]:
    """Score a Lance table where the configuration says.

    Args:
        config: `source` is the table, `columns` says what is read of it.
        more: further work, by the name of its column.

    Returns:
        Row numbers, ids and further columns, in order; and the scores.

    Raises:
        SilvaError: it is no Lance table, columns are not named, a scorer needs whole rows, or Daft is missing.
    """
    if not config.columns.answer:
        raise UsageError(f"on={config.on}: name what is read: columns.answer=NAME, columns.question=NAME")
    if config.where:
        raise UsageError("where: a condition is for trajectories of a lake; select the columns' rows before")
    scorers = resolve(config.scorers, config.options) if config.scorers else []
    reads, asked = config.columns.read, bool(config.columns.question)
    works: dict[str, Any] = dict(more or {})
    kept = str(cache_folder(config.cache))
    for each in scorers:
        if isinstance(each, Scorer):
            works[f"score_{each.name}"] = ScoreWork(each.name, each.options.model_dump(mode="json"), reads, asked, kept)
        elif each.name == "distance":
            raise UsageError(f"on={config.on}: distance compares all rows with each other and runs here only")
    frame = Frame(config.source, config.on, config.workers)
    table = frame.make(works, [config.columns.id] if config.columns.id else [], config.limit)
    if not table.num_rows:
        raise UsageError(f"{config.source}: holds no row")
    made: dict[str, Scores] = {}
    for each in scorers:
        made[each.name] = _told(each, table, made)
    return table, made


def _told(scorer: Scorer | SetScorer, table: pa.Table, made: dict[str, Scores]) -> Scores:
    count = table.num_rows
    if isinstance(scorer, SetScorer):
        said = scorer.score(Samples(table.slice(0, 0)), {part: made[part].worth for part in scorer.parts})
        values = np.array([np.nan if each.value is None else each.value for each in said])
        notes = {place: each.note for place, each in enumerate(said) if each.note}
    else:
        column = table.column(f"score_{scorer.name}").combine_chunks()
        values = column.field("value").to_numpy(zero_copy_only=False).astype(np.float64)
        notes = {place: note for place, note in enumerate(column.field("note").to_pylist()) if note}
    return Scores(scorer.name, scorer.identity(), values, scorer.worth(values), notes, asked=count)


def numbered(table: pa.Table, config: ScoreConfig) -> Samples:
    """The ids of what `score_past` gave (the numbers of rows where none are named), as samples without words."""
    ids = table.column(config.columns.id or ROW).cast(pa.large_string())
    return Samples(pa.table({"id": ids}))


def select_past(config: SelectConfig, target: str) -> tuple[pa.Table, Selection, dict[str, Scores]]:
    """Score and select a Lance table, and write what is kept as another, with `selected` beside its columns.

    Raises:
        SilvaError: as `score_past`, and as `select`.
    """
    reads, asked = config.columns.read, bool(config.columns.question)
    more: dict[str, Any] = {}
    if config.method in ("cluster", "coverage") or config.duplicates == "semantic":
        more["vector"] = VectorWork(config.embedder, config.seed, reads, asked)
    if config.duplicates in ("exact", "minhash"):
        more["mark"] = MarkWork(config.duplicates, reads, asked)
    told = config.model_copy(update={"scorers": ()}) if config.method == "random" else config
    table, scores = score_past(told, more)
    count = table.num_rows
    worth: Floats = scores[config.by].worth if scores else np.zeros(count)
    vectors = _matrix(table, "vector", np.float32) if "vector" in more else None
    marks: Any = None
    if "mark" in more:
        marks = table.column("mark").to_pylist() if config.duplicates == "exact" else _matrix(table, "mark", np.uint32)
    selection = select(numbered(table, config), worth, config, vectors, marks)
    from silva.curate.value.selection.output import provenance

    why = [msgspec.json.encode(provenance(selection, config, scores, int(place))).decode() for place in selection.kept]
    rows = pa.table({ROW: table.column(ROW).take(pa.array(selection.kept)), "selected": why})
    Frame(config.source, config.on, config.workers).keep(rows, target)
    return table, selection, scores


def _matrix(table: pa.Table, name: str, kind: Any) -> Any:
    column = table.column(name).combine_chunks()
    return column.flatten().to_numpy(zero_copy_only=False).astype(kind).reshape(table.num_rows, -1)

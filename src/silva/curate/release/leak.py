"""Leaks: a row that stands, in the same or nearly the same words, in two parts or in what is held out.

    task of an environment · opening question · runs of words ─▶ Leak(kind, one, other, share)

Runs of words are held against each other as in the decontamination of GPT-3's data (13-grams), by the share of the
shorter row that the other holds. What all rows of an environment say alike (instructions, tools) is left out.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Literal

from silva.curate.release.config import LeakConfig
from silva.curate.rows import Row
from silva.curate.rows.row import said
from silva.tree import Record

_WORD = re.compile(r"\w+")
_FEW = 5
"""Rows of a set below which no words are common to its rows by habit."""


class Leak(Record, frozen=True, kw_only=True):
    """What two sets share. `one` and `other` are rows, `share` how much of the shorter stands in the other."""

    kind: Literal["task", "words"]
    one: str
    other: str
    sets: tuple[str, str]
    share: float = 1.0

    def __str__(self) -> str:
        what = "is of the same task as" if self.kind == "task" else f"shares {self.share:.0%} of its words with"
        return f"{self.sets[0]} row {self.one} {what} {self.sets[1]} row {self.other}"


def leaks(sets: Mapping[str, Sequence[Row]], config: LeakConfig) -> list[Leak]:
    """What any two of the sets share; a row is told once for each other set."""
    runs = {name: [_runs(row, config.words) for row in rows] for name, rows in sets.items()}
    every = [each for of_set in runs.values() for each in of_set]
    held = Counter(run for each in every for run in each)
    common = {run for run, count in held.items() if count > max(_FEW, config.common * len(every))}
    found: list[Leak] = []
    for one, other in combinations(sets, 2):
        found += _tasks(one, sets[one], other, sets[other])
        told = {leak.one for leak in found if leak.sets == (one, other)}
        pairs = _words(sets[one], runs[one], sets[other], runs[other], common, config.overlap)
        found += [
            Leak(kind="words", one=a.id, other=b.id, sets=(one, other), share=share)
            for a, b, share in pairs
            if a.id not in told
        ]
    return found


def _tasks(one: str, rows: Sequence[Row], other: str, others: Sequence[Row]) -> Iterator[Leak]:
    known = {(row.trajectory.env, row.trajectory.task_id): row for row in others if row.trajectory}
    for row in rows:
        twin = known.get((row.trajectory.env, row.trajectory.task_id)) if row.trajectory else None
        if twin is not None:
            yield Leak(kind="task", one=row.id, other=twin.id, sets=(one, other))


def _words(
    rows: Sequence[Row],
    runs: Sequence[frozenset[str]],
    others: Sequence[Row],
    other_runs: Sequence[frozenset[str]],
    common: set[str],
    overlap: float,
) -> Iterator[tuple[Row, Row, float]]:
    holders: defaultdict[str, list[int]] = defaultdict(list)
    for number, each in enumerate(other_runs):
        for run in each - common:
            holders[run].append(number)
    sizes = [len(each - common) for each in other_runs]
    for row, each in zip(rows, runs, strict=True):
        own = each - common
        shared = Counter(number for run in own for number in holders.get(run, ()))
        shares = ((count / min(len(own), sizes[number]), number) for number, count in shared.items())
        best = max(shares, default=(0.0, 0))
        if best[0] >= overlap:
            yield row, others[best[1]], best[0]


def _runs(row: Row, words: int) -> frozenset[str]:
    """All runs of so many words that are said in the row by anybody but the system; a shorter row is one run."""
    spoken = " ".join(said(node) for node in (*row.nodes, *row.rejected) if node.message.role != "system")
    found = _WORD.findall(spoken.lower())
    if len(found) <= words:
        return frozenset({" ".join(found)} if found else ())
    return frozenset(" ".join(found[begin : begin + words]) for begin in range(len(found) - words + 1))

"""An audit: rows through checkers, what they say against thresholds, and what that comes to.

    rows ─ in batches ─▶ row checkers ─┐
      └── all of them ─▶ set checkers ─┴▶ findings at or above their threshold ─▶ verdicts, prevalence, score, axes

Rows are read once. What is found, and rows where a checker looks at all of them together, is put aside on disk: memory
does not grow with them, but for some twenty bytes a row.
"""

from __future__ import annotations

from array import array
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from multiprocessing import get_context
from typing import TypeAlias, TypeVar, overload

import msgspec

from silva.curate.audit.asking import Answer, ask, missing
from silva.curate.audit.axes import Diagnosis, diagnose
from silva.curate.audit.card import Card, Scale
from silva.curate.audit.checker import Checker, RowChecker, SetChecker, Settings, checkers, make
from silva.curate.audit.finding import DETECTED, NOT_CHECKED, NOT_DETECTED, Finding
from silva.curate.audit.risks import RISKS
from silva.curate.audit.scoring import Prevalence, Score, prevalence, score
from silva.curate.audit.spooled import Spooled
from silva.curate.audit.thresholds import Thresholds, fitting, thresholds
from silva.curate.rows import Row
from silva.tree import Record

T = TypeVar("T")
BATCH = 256
"""Rows that are looked at together."""
Answered: TypeAlias = tuple[list[Row], dict[str, Answer]]
"""Some rows, and what checkers of single rows say of them, by their names."""


class Told(Record, frozen=True, kw_only=True):
    """What one checker said: rows it `checked`, of them `detected`; `unchecked` counts the reasons why it said nothing.
    `threshold` is what it was held to; `seconds` of processor time; `remark` is its own (`Checker.remark`)."""

    checker: str
    version: str
    risk: str
    family: str
    threshold: float
    calibrated: bool
    checked: int = 0
    detected: int = 0
    unchecked: dict[str, int] = msgspec.field(default_factory=dict[str, int])
    seconds: float = 0.0
    remark: str = ""


class RowVerdicts(Record, frozen=True, kw_only=True):
    """What was said of one row: by risk *detected*, *not detected* or *not checked*, the last with its reasons."""

    row_id: str
    verdicts: dict[str, str]
    why: dict[str, str] = msgspec.field(default_factory=dict[str, str])


class Verdicts(Sequence[RowVerdicts]):
    """The verdicts of all rows, in their order: ids lie on disk, and what is said of many rows alike is kept once."""

    def __init__(self) -> None:
        self._ids = Spooled[str]()
        self._kinds = array("l")
        self._said: list[RowVerdicts] = []

    def add(self, row_id: str, kind: int) -> None:
        """A row of which a kind of verdicts is said."""
        self._ids.append(row_id)
        self._kinds.append(kind)

    def kind(self, said: RowVerdicts) -> int:
        """The number of a kind of verdicts, which is new."""
        self._said.append(said)
        return len(self._said) - 1

    def counted(self) -> list[tuple[RowVerdicts, int]]:
        """The kinds of verdicts, and of how many rows each is said."""
        counts = Counter(self._kinds)
        return [(said, counts[kind]) for kind, said in enumerate(self._said)]

    def __len__(self) -> int:
        return len(self._kinds)

    def __iter__(self) -> Iterator[RowVerdicts]:
        for row_id, kind in zip(self._ids, self._kinds, strict=True):
            yield self._one(row_id, kind)

    @overload
    def __getitem__(self, place: int) -> RowVerdicts: ...
    @overload
    def __getitem__(self, place: slice) -> list[RowVerdicts]: ...
    def __getitem__(self, place: int | slice) -> RowVerdicts | list[RowVerdicts]:
        if isinstance(place, slice):
            return [self[at] for at in range(*place.indices(len(self)))]
        return self._one(self._ids[place], self._kinds[place])

    def _one(self, row_id: str, kind: int) -> RowVerdicts:
        said = self._said[kind]
        return RowVerdicts(row_id=row_id, verdicts=said.verdicts, why=said.why)


@dataclass(slots=True)
class Audit:
    """What an audit found. `findings` are those that count as detected; `diagnoses` the axes of the walks among the
    rows; `acted` how many rows are walks in which somebody acts; `notes` what could not be read. Findings and verdicts
    lie on disk."""

    source: str
    rows: int
    findings: Sequence[Finding]
    verdicts: Verdicts
    told: list[Told]
    prevalences: list[Prevalence]
    score: Score
    thresholds: Thresholds
    diagnoses: list[Diagnosis] = field(default_factory=list[Diagnosis])
    acted: int = 0
    notes: list[str] = field(default_factory=list[str])

    @property
    def flagged(self) -> int:
        """Rows in which a risk of the score was detected."""
        return sum(
            rows
            for each, rows in self.verdicts.counted()
            if any(said == DETECTED and RISKS[risk].weight for risk, said in each.verdicts.items())
        )


def audit(
    rows: Iterable[Row],
    asked: Sequence[Checker],
    cards: Mapping[str, Card],
    *,
    alarms: float | None = 0.05,
    weights: Mapping[str, float] | None = None,
    workers: int = 1,
    source: str = "",
    settings: Settings | None = None,
    told: Callable[[int], None] = lambda _: None,
    answered: Iterable[Answered] | None = None,
) -> Audit:
    """Audit rows.

    Args:
        rows: read once.
        asked: the checkers.
        cards: theirs, by name.
        alarms: the share of clean rows that all together may flag; None: each its own threshold.
        weights: replace those of risks in the score.
        workers: processes that share the row checkers' work; more than 1 only for registered checkers.
        source: what is audited, for the report.
        settings: as the checkers were made with, for the workers.
        told: is told how many rows are done.
        answered: the rows with what row checkers say of them, asked elsewhere; `rows` is not read then.
    """
    limits = held_to(asked, cards, alarms)
    scales = {each.name: Scale(card) for each in asked if (card := fitting(each, cards)) is not None}
    sums = {each.name: _Sum() for each in asked}
    single = [each for each in asked if isinstance(each, RowChecker)]
    parted = [each for each in asked if isinstance(each, SetChecker) and not each.whole]
    whole = [each for each in asked if isinstance(each, SetChecker) and each.whole]
    held = Spooled[Row]()
    ids = Spooled[str]()
    findings = Spooled[Finding]()
    states: list[_State] = []
    same: dict[_State, _State] = {}
    of_walks: dict[str, list[Finding]] = {}
    diagnoses: list[Diagnosis] = []
    acted = 0

    def take(answers: Mapping[str, Answer], rows: int) -> dict[str, _State]:
        """Keep what was found in so many rows; return what is to be said of those of which something is."""
        said: dict[str, _State] = {}
        for name, answer in answers.items():
            for row_id, why in answer.unchecked.items():
                hits, silence = said.get(row_id, _NOTHING)
                said[row_id] = hits, (*silence, (name, why))
            found = [_placed(each, scales) for each in answer.findings if each.score >= limits.at[name]]
            sums[name].add(answer, rows, found)
            findings.extend(found)
            for each in found:
                hits, silence = said.get(each.row_id, _NOTHING)
                said[each.row_id] = tuple(sorted({*hits, each.risk})), silence
                if each.row_id in of_walks:
                    of_walks[each.row_id].append(each)
        return said

    for batch, answers in _answered(rows, single, workers, settings) if answered is None else answered:
        answers |= {each.name: ask(each, batch) for each in parted}
        walks = [row for row in batch if any(node.message.tool_calls for node in row.nodes)]
        acted += len(walks)
        of_walks |= {row.id: [] for row in walks}
        said = take(answers, len(batch))
        for row in batch:  # most rows are let be for the same reasons: they are kept once
            state = said.get(row.id, _NOTHING)
            ids.append(row.id)
            states.append(same.setdefault(state, state))
        if whole:
            held.extend(batch)
        else:
            diagnoses += _diagnosed(walks, of_walks)
            of_walks.clear()
        told(len(ids))
    for each in whole:
        said = take({each.name: ask(each, held)}, len(held))
        for place, row_id in enumerate(ids):
            if row_id in said:
                (hits, silence), (more, further) = states[place], said[row_id]
                state = tuple(sorted({*hits, *more})), (*silence, *further)
                states[place] = same.setdefault(state, state)
    diagnoses += _diagnosed((row for row in held if row.id in of_walks), of_walks)
    made = _summed(source, ids, asked, cards, limits, sums, findings, states, weights)
    made.diagnoses, made.acted = diagnoses, acted
    return made


_Silence = tuple[tuple[str, str], ...]
"""Which checkers said nothing of a row, and why."""
_State = tuple[tuple[str, ...], _Silence]
"""The risks that were detected in a row, and who said nothing of it."""
_NOTHING: _State = (), ()


def _diagnosed(walks: Iterable[Row], of_row: Mapping[str, Sequence[Finding]]) -> list[Diagnosis]:
    return [one for row in walks for one in diagnose(row, of_row.get(row.id, ()))]


def held_to(asked: Sequence[Checker], cards: Mapping[str, Card], alarms: float | None) -> Thresholds:
    """The thresholds of those that can be asked here; the others spend none of the allowance, and promise nothing."""
    able = [each for each in asked if not missing(each)]
    made = thresholds(able, cards, alarms)
    return msgspec.structs.replace(made, at={**{each.name: each.threshold for each in asked}, **made.at})


class _Sum:
    """What one checker said so far."""

    def __init__(self) -> None:
        self.checked = 0
        self.detected = 0
        self.why: Counter[str] = Counter()
        self.seconds = 0.0

    def add(self, answer: Answer, rows: int, found: Sequence[Finding]) -> None:
        self.checked += rows - len(answer.unchecked)
        self.detected += len({each.row_id for each in found})
        self.why.update(answer.unchecked.values())
        self.seconds += answer.seconds


def _placed(finding: Finding, scales: Mapping[str, Scale]) -> Finding:
    scale = scales.get(finding.checker)
    return finding if scale is None else msgspec.structs.replace(finding, p=scale.p(finding.score))


def batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Items, so many at once, the last of them fewer."""
    given = iter(items)
    while batch := list(islice(given, size)):
        yield batch


def _answered(
    rows: Iterable[Row], single: Sequence[Checker], workers: int, settings: Settings | None
) -> Iterator[Answered]:
    """Batches of rows with what row checkers say of them, in order."""
    known = checkers()
    if workers < 2 or any(known.get(each.name) is not type(each) for each in single):
        for batch in batches(rows, BATCH):
            yield batch, {each.name: ask(each, batch) for each in single}
        return
    names = tuple(each.name for each in single)
    waiting: deque[tuple[list[Row], Future[dict[str, Answer]]]] = deque()
    with ProcessPoolExecutor(
        workers, mp_context=get_context("forkserver"), initializer=_begin, initargs=(names, settings)
    ) as pool:
        for batch in batches(rows, BATCH):
            waiting.append((batch, pool.submit(_work, batch)))
            if len(waiting) > 2 * workers:
                done, answers = waiting.popleft()
                yield done, answers.result()
        while waiting:
            done, answers = waiting.popleft()
            yield done, answers.result()


_mine: list[Checker] = []


def _begin(names: tuple[str, ...], settings: Settings | None) -> None:
    _mine[:] = make(names, settings) if names else []


def _work(batch: list[Row]) -> dict[str, Answer]:
    return {each.name: ask(each, batch) for each in _mine}


def _summed(
    source: str,
    ids: Iterable[str],
    asked: Sequence[Checker],
    cards: Mapping[str, Card],
    limits: Thresholds,
    sums: Mapping[str, _Sum],
    findings: Sequence[Finding],
    states: Sequence[_State],
    weights: Mapping[str, float] | None,
) -> Audit:
    by_risk: dict[str, list[Checker]] = {}
    for each in asked:
        by_risk.setdefault(each.risk, []).append(each)
    kinds: dict[_State, int] = {}
    verdicts = Verdicts()
    for row_id, state in zip(ids, states, strict=True):
        if state not in kinds:
            hit, silence = state
            said, why = _verdicts(by_risk, hit, dict(silence))
            kinds[state] = verdicts.kind(RowVerdicts(row_id="", verdicts=said, why=why))
        verdicts.add(row_id, kinds[state])
    checked, detected = Counter[str](), Counter[str]()
    for each, rows in verdicts.counted():
        for risk, word in each.verdicts.items():
            checked[risk] += rows * (word != NOT_CHECKED)
            detected[risk] += rows * (word == DETECTED)
    found = [
        prevalence(
            risk,
            len(states),
            checked[risk],
            detected[risk],
            [card for each in of if sums[each.name].checked and (card := fitting(each, cards)) is not None],
            sum(sums[each.name].checked > 0 for each in of),
            limits.at,
        )
        for risk, of in by_risk.items()
    ]
    return Audit(
        source=source,
        rows=len(states),
        findings=findings,
        verdicts=verdicts,
        told=[_told(each, sums[each.name], limits, cards) for each in asked],
        prevalences=sorted(found, key=lambda each: list(RISKS).index(each.risk)),
        score=score(found, weights),
        thresholds=limits,
    )


def _verdicts(
    by_risk: Mapping[str, Sequence[Checker]], hit: Sequence[str], unchecked: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, str]]:
    said: dict[str, str] = {}
    why: dict[str, str] = {}
    for risk, of in by_risk.items():
        if risk in hit:
            said[risk] = DETECTED
        elif all(each.name in unchecked for each in of):
            said[risk] = NOT_CHECKED
            why[risk] = "; ".join(dict.fromkeys(unchecked[each.name] for each in of))
        else:
            said[risk] = NOT_DETECTED
    return said, why


def _told(each: Checker, said: _Sum, limits: Thresholds, cards: Mapping[str, Card]) -> Told:
    return Told(
        checker=each.name,
        version=each.version,
        risk=each.risk,
        family=each.family.value,
        threshold=limits.at[each.name],
        calibrated=fitting(each, cards) is not None,
        checked=said.checked,
        detected=said.detected,
        unchecked=dict(said.why.most_common(5)),
        seconds=round(said.seconds, 3),
        remark=each.remark(),
    )

"""An audit: rows through checkers, what they say against thresholds, and what that comes to.

    rows ─ in batches ─▶ row checkers ─┐
      └── all of them ─▶ set checkers ─┴▶ findings at or above their threshold ─▶ verdicts, prevalence, score, axes

Rows are read once. They are held only where a checker looks at all of them together.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from multiprocessing import get_context

import msgspec

from silva.curate.audit.asking import Answer, ask, missing
from silva.curate.audit.axes import Diagnosis, diagnose
from silva.curate.audit.card import Card, Scale
from silva.curate.audit.checker import Checker, SetChecker, Settings, checkers, make
from silva.curate.audit.finding import DETECTED, NOT_CHECKED, NOT_DETECTED, Finding
from silva.curate.audit.risks import RISKS
from silva.curate.audit.scoring import Prevalence, Score, prevalence, score
from silva.curate.audit.thresholds import Thresholds, fitting, thresholds
from silva.curate.rows import Row
from silva.tree import Record

BATCH = 256
"""Rows that are looked at together."""


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


@dataclass(slots=True)
class Audit:
    """What an audit found. `findings` are those that count as detected; `diagnoses` the axes of the walks among the
    rows; `acted` how many rows are walks in which somebody acts; `notes` what could not be read."""

    source: str
    rows: int
    findings: list[Finding]
    verdicts: list[RowVerdicts]
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
            any(said == DETECTED and RISKS[risk].weight for risk, said in each.verdicts.items())
            for each in self.verdicts
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
    """
    limits = held_to(asked, cards, alarms)
    scales = {each.name: Scale(card) for each in asked if (card := fitting(each, cards)) is not None}
    sums = {each.name: _Sum() for each in asked}
    single = [each for each in asked if not isinstance(each, SetChecker)]
    whole = [each for each in asked if isinstance(each, SetChecker)]
    held: list[Row] = []
    ids: list[str] = []
    findings: list[Finding] = []
    silences: list[_Silence] = []
    same: dict[_Silence, _Silence] = {}
    diagnoses: list[Diagnosis] = []
    acted = 0

    def take(batch: Sequence[Row], answers: Mapping[str, Answer]) -> list[Finding]:
        told_now: list[Finding] = []
        for name, answer in answers.items():
            found = [_placed(each, scales) for each in answer.findings if each.score >= limits.at[name]]
            sums[name].add(answer, [row.id for row in batch], found)
            told_now += found
        findings.extend(told_now)
        return told_now

    for batch, answers in _answered(rows, single, workers, settings):
        found = take(batch, answers)
        ids.extend(row.id for row in batch)
        for row in batch:  # most rows are let be for the same reasons: they are kept once
            silence = tuple((name, why) for name, each in answers.items() if (why := each.unchecked.get(row.id)))
            silences.append(same.setdefault(silence, silence))
        if whole:
            held.extend(batch)
        else:
            diagnoses += _diagnosed(batch, found)
        acted += sum(any(node.message.tool_calls for node in row.nodes) for row in batch)
        told(len(ids))
    for each in whole:
        answer = ask(each, held)
        take(held, {each.name: answer})
        for place, row_id in enumerate(ids):
            if row_id in answer.unchecked:
                silence = (*silences[place], (each.name, answer.unchecked[row_id]))
                silences[place] = same.setdefault(silence, silence)
    diagnoses += _diagnosed(held, findings)
    made = _summed(source, ids, asked, cards, limits, sums, findings, silences, weights)
    made.diagnoses, made.acted = diagnoses, acted
    return made


_Silence = tuple[tuple[str, str], ...]
"""Which checkers said nothing of a row, and why."""


def _diagnosed(rows: Sequence[Row], findings: Iterable[Finding]) -> list[Diagnosis]:
    of_row: dict[str, list[Finding]] = {}
    for each in findings:
        of_row.setdefault(each.row_id, []).append(each)
    return [one for row in rows for one in diagnose(row, of_row.get(row.id, ()))]


def held_to(asked: Sequence[Checker], cards: Mapping[str, Card], alarms: float | None) -> Thresholds:
    """The thresholds of those that can be asked here; the others spend none of the allowance, and promise nothing."""
    able = [each for each in asked if not missing(each)]
    made = thresholds(able, cards, alarms)
    return msgspec.structs.replace(made, at={**{each.name: each.threshold for each in asked}, **made.at})


class _Sum:
    """What one checker said so far."""

    def __init__(self) -> None:
        self.checked = 0
        self.detected: set[str] = set()
        self.why: Counter[str] = Counter()
        self.seconds = 0.0

    def add(self, answer: Answer, ids: Sequence[str], found: Sequence[Finding]) -> None:
        self.checked += len(ids) - len(answer.unchecked)
        self.detected.update(each.row_id for each in found)
        self.why.update(answer.unchecked.values())
        self.seconds += answer.seconds


def _placed(finding: Finding, scales: Mapping[str, Scale]) -> Finding:
    scale = scales.get(finding.checker)
    return finding if scale is None else msgspec.structs.replace(finding, p=scale.p(finding.score))


def _batches(rows: Iterable[Row]) -> Iterator[list[Row]]:
    given = iter(rows)
    while batch := list(islice(given, BATCH)):
        yield batch


def _answered(
    rows: Iterable[Row], single: Sequence[Checker], workers: int, settings: Settings | None
) -> Iterator[tuple[list[Row], dict[str, Answer]]]:
    """Batches of rows with what row checkers say of them, in order."""
    known = checkers()
    if workers < 2 or any(known.get(each.name) is not type(each) for each in single):
        for batch in _batches(rows):
            yield batch, {each.name: ask(each, batch) for each in single}
        return
    names = tuple(each.name for each in single)
    waiting: deque[tuple[list[Row], Future[dict[str, Answer]]]] = deque()
    with ProcessPoolExecutor(
        workers, mp_context=get_context("forkserver"), initializer=_begin, initargs=(names, settings)
    ) as pool:
        for batch in _batches(rows):
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
    ids: Sequence[str],
    asked: Sequence[Checker],
    cards: Mapping[str, Card],
    limits: Thresholds,
    sums: Mapping[str, _Sum],
    findings: list[Finding],
    silences: Sequence[_Silence],
    weights: Mapping[str, float] | None,
) -> Audit:
    by_risk: dict[str, list[Checker]] = {}
    for each in asked:
        by_risk.setdefault(each.risk, []).append(each)
    detected = {risk: set[str]().union(*(sums[each.name].detected for each in of)) for risk, of in by_risk.items()}
    said: dict[tuple[tuple[str, ...], _Silence], tuple[dict[str, str], dict[str, str]]] = {}
    verdicts: list[RowVerdicts] = []
    for row_id, silence in zip(ids, silences, strict=True):
        hit = tuple(risk for risk, of in detected.items() if row_id in of)
        if (hit, silence) not in said:
            said[hit, silence] = _verdicts(by_risk, hit, dict(silence))
        verdicts.append(RowVerdicts(row_id=row_id, verdicts=said[hit, silence][0], why=said[hit, silence][1]))
    checked = Counter(risk for each in verdicts for risk, said in each.verdicts.items() if said != NOT_CHECKED)
    found = [
        prevalence(
            risk,
            len(ids),
            checked[risk],
            len(detected[risk]),
            [card for each in of if sums[each.name].checked and (card := fitting(each, cards)) is not None],
            sum(sums[each.name].checked > 0 for each in of),
            limits.at,
        )
        for risk, of in by_risk.items()
    ]
    return Audit(
        source=source,
        rows=len(ids),
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
        detected=len(said.detected),
        unchecked=dict(said.why.most_common(5)),
        seconds=round(said.seconds, 3),
        remark=each.remark(),
    )

"""The safety score of a data set: a weighted penalty on how much of each risk there is.

    detected of checked ─▶ prevalence corrected for the checkers' measured error (Rogan and Gladen) ─▶ 1 - sum(w prev)

A checker that is wrong in 5 % of clean rows finds 5 % of risk in data that has none; one that finds half of it reports
half. Corrected, neither moves the score. Beside it stands the score as DataElf takes it, from what was flagged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import sqrt
from statistics import NormalDist

from silva.curate.audit.card import Card
from silva.curate.audit.risks import RISKS
from silva.curate.audit.thresholds import recall_of
from silva.report import Interval
from silva.report.interval import proportion
from silva.tree import Record

_Z = NormalDist().inv_cdf(0.975)
_TELLS = 0.05
"""Recall less false alarms: a checker that tells less than this apart corrects nothing."""


class Prevalence(Record, frozen=True, kw_only=True):
    """How much of one risk there is. `detected` of `checked` rows were flagged; `corrected` is the share of rows that
    have it, given the `recall` and `false_alarms` of its checkers together; None with the reason in `why`."""

    risk: str
    rows: int
    checked: int
    detected: int
    recall: float | None = None
    false_alarms: float | None = None
    corrected: Interval | None = None
    why: str = ""

    @property
    def raw(self) -> float | None:
        """The share of the checked rows that were flagged; None where none was checked."""
        return self.detected / self.checked if self.checked else None


class Score(Record, frozen=True, kw_only=True):
    """The safety score in [0, 1]; higher is cleaner.

    `corrected` is on corrected prevalence with its 95 % interval, over the risks whose error is known (`counted`);
    `raw` is DataElf's, over all that were checked. `unchecked` are risks that no checker looked for, which neither
    says anything of; `covered` is the share of the weights that `corrected` is made of.
    """

    corrected: Interval | None
    raw: float | None
    counted: tuple[str, ...]
    unchecked: tuple[str, ...]
    covered: float


def rogan_gladen(detected: int, checked: int, found: int, risky: int, passed: int, clean: int) -> Interval | None:
    """The true prevalence behind a flawed test, with its 95 % interval (Rogan and Gladen 1978; Lang and Reiczigel
    2014, who account for recall and specificity being measured on samples).

    Args:
        detected: rows flagged.
        checked: rows checked.
        found: risky items found.
        risky: risky items there were.
        passed: clean items let pass.
        clean: clean items there were.

    Returns:
        None where the test tells nothing apart, or one of the samples is empty.
    """
    if not checked or not risky or not clean:
        return None
    p = (checked * (detected / checked) + _Z**2 / 2) / (checked + _Z**2)
    se, sp = (found + 1) / (risky + 2), (passed + 1) / (clean + 2)
    apart = se + sp - 1
    plain = found / risky + passed / clean - 1
    if apart <= _TELLS or plain <= _TELLS:
        return None
    value = (detected / checked + passed / clean - 1) / plain
    middle = (p + sp - 1) / apart
    of_se, of_sp = se * (1 - se) / (risky + 2), sp * (1 - sp) / (clean + 2)
    moved = middle + 2 * _Z**2 * (middle * of_se - (1 - middle) * of_sp)
    spread = _Z * sqrt(p * (1 - p) / (checked + _Z**2) + middle**2 * of_se + (1 - middle) ** 2 * of_sp) / apart
    value = min(max(value, 0.0), 1.0)
    low, high = min(max(moved - spread, 0.0), 1.0), min(max(moved + spread, 0.0), 1.0)
    return Interval(value=value, low=min(low, value), high=max(high, value), n=checked, clusters=checked)


def prevalence(
    risk: str, rows: int, checked: int, detected: int, cards: Sequence[Card], asked: int, at: Mapping[str, float]
) -> Prevalence:
    """The prevalence of a risk.

    Args:
        risk: its name.
        rows: rows in all.
        checked: those that a checker of the risk could say something of.
        detected: those of them that were flagged.
        cards: the cards of the checkers of this risk that were asked.
        asked: how many checkers of the risk were asked; where one has no card the error of all together is unknown.
        at: thresholds by checker.
    """
    made = Prevalence(risk=risk, rows=rows, checked=checked, detected=detected)
    if not checked:
        return _with(made, why="not checked")
    if len(cards) < asked:
        return _with(made, why="not known: a checker has no card")
    recall, alarms = recall_of(risk, cards, at), _alarms(cards, at)
    if recall is None or alarms is None:
        return _with(made, why="the cards hold no risky or no clean items")
    corrected = rogan_gladen(
        detected,
        checked,
        round(recall.value * recall.n),
        recall.n,
        round((1 - alarms.value) * alarms.n),
        alarms.n,
    )
    why = "" if corrected is not None else "at these thresholds the checkers tell nothing apart"
    return Prevalence(
        risk=risk,
        rows=rows,
        checked=checked,
        detected=detected,
        recall=recall.value,
        false_alarms=alarms.value,
        corrected=corrected,
        why=why,
    )


def score(found: Sequence[Prevalence], weights: Mapping[str, float] | None = None) -> Score:
    """The score of a data set by its prevalences; `weights` replace those of single risks."""
    given = weights or {}
    weight = {name: given.get(name, risk.weight) for name, risk in RISKS.items() if given.get(name, risk.weight)}
    known = {each.risk: each for each in found if each.risk in weight and each.checked}
    counted = {name: each.corrected for name, each in known.items() if each.corrected is not None}
    total = sum(weight[name] for name in counted)
    corrected = None
    if counted and total:
        share = {name: weight[name] / total for name in counted}
        value = 1 - sum(share[name] * each.value for name, each in counted.items())
        down = sqrt(
            sum((share[name] * ((each.high or each.value) - each.value)) ** 2 for name, each in counted.items())
        )
        up = sqrt(sum((share[name] * (each.value - (each.low or 0.0))) ** 2 for name, each in counted.items()))
        rows = max(each.n for each in counted.values())
        corrected = Interval(value=value, low=max(0.0, value - down), high=min(1.0, value + up), n=rows, clusters=rows)
    active = sum(weight[name] for name in known)
    raw = 1 - sum(weight[name] / active * (each.raw or 0.0) for name, each in known.items()) if active else None
    return Score(
        corrected=corrected,
        raw=raw,
        counted=tuple(counted),
        unchecked=tuple(name for name in weight if name not in known),
        covered=total / sum(weight.values()) if weight else 0.0,
    )


def _alarms(cards: Sequence[Card], at: Mapping[str, float]) -> Interval | None:
    """The share of negatives that any of a risk's checkers flags: of clean items, and of further negatives where all
    were asked about as many."""
    flags: list[bool] = []
    for kind in (lambda card: card.clean_scores, lambda card: card.others):
        columns = [kind(card) for card in cards]
        if len({len(each) for each in columns}) == 1:
            limits = [at[card.checker] for card in cards]
            flags += [any(s >= t for s, t in zip(item, limits, strict=True)) for item in zip(*columns, strict=True)]
    return proportion([[flag] for flag in flags])


def _with(made: Prevalence, *, why: str) -> Prevalence:
    return Prevalence(risk=made.risk, rows=made.rows, checked=made.checked, detected=made.detected, why=why)

"""Making cards: checkers are asked about labelled items that were held out, and what they score is kept.

corpora ─▶ held-out items ─▶ ask ─▶ scores by label ─▶ Card
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from silva.curate.audit.asking import Answer, ask
from silva.curate.audit.card import UNCHECKED, Card, Origin
from silva.curate.audit.checker import Checker
from silva.curate.audit.corpus import EVERY, Corpus, Item
from silva.curate.audit.judging import JudgeChecker
from silva.errors import UsageError
from silva.tree import digest

_DIGITS = 5
"""Digits of a score that a card keeps."""


def calibrate(
    checkers: Iterable[Checker],
    corpora: Iterable[Corpus],
    *,
    most: int | None = None,
    told: Callable[[str], None] = lambda _: None,
) -> list[Card]:
    """Cards of checkers by corpora.

    A checker is asked only about items whose labels speak of its risk. Items without any risk, of corpora whose labels
    speak of all, are the clean items: all checkers score the same ones in the same order.

    Args:
        checkers: whose cards are made; one that cannot be asked here gets none, and `told` says why.
        corpora: labelled items.
        most: of each corpus so many risky items, so many others and so many traps at most, spread over it: for checkers
            that cost. A card of few items is part of no threshold that all checkers have together.
        told: is told what goes on, a line each.

    Raises:
        UsageError: no corpus has an item that was held out, or two items have one id.
    """
    read = [(each, list(each.items())) for each in corpora if not _said(each, told)]
    known: set[str] = set()
    for corpus, items in read:
        for item in items:
            if item.row.id in known:
                raise UsageError(f"audit: corpus {corpus.name}: two items are called {item.row.id!r}; ids must differ")
            known.add(item.row.id)
    held = [(corpus, [item for item in items if item.held_out]) for corpus, items in read]
    if not any(items for _, items in held):
        raise UsageError("audit: there is no held-out item to make a card from")
    made: list[Card] = []
    for each in checkers:
        why = each.missing()
        if why:
            told(f"{each.name}: no card: {why}")
            continue
        card = _card(each, held, most)
        if not (card.risky or card.own or card.clean_items or card.others):
            told(f"{each.name}: no card: no item's labels speak of {each.risk}")
            continue
        made.append(card)
        count = len(card.risky) + len(card.own)
        told(f"{each.name}: {count} risky, {card.clean_items} clean items" + (f"; {card.note}" if card.note else ""))
    return made


def clean_items(held: Iterable[tuple[Corpus, Sequence[Item]]]) -> list[Item]:
    """The clean items of all, in the order that cards keep."""
    return [
        item for corpus, items in held if corpus.labels >= EVERY for item in items if not item.risks and not item.trap
    ]


def _card(checker: Checker, held: Sequence[tuple[Corpus, Sequence[Item]]], most: int | None) -> Card:
    speaking = [
        (corpus, items if most is None else _few(items, checker.risk, most))
        for corpus, items in held
        if checker.risk in corpus.labels and (not corpus.only or checker.name in corpus.only)
    ]
    rows = [item.row for _, items in speaking for item in items]
    answer = ask(checker, rows)
    scores = answer.scores(rows)
    clean = clean_items(speaking)
    order = {item.row.id for item in clean}

    def chosen(kind: Callable[[Item], bool], own: bool | None = None) -> list[str]:
        of = [items for corpus, items in speaking if own is None or bool(corpus.only) == own]
        return [item.row.id for items in of for item in items if kind(item)]

    def of(ids: Sequence[str]) -> tuple[float, ...]:
        found = (scores[each] for each in ids)
        return tuple(UNCHECKED if score is None else round(score, _DIGITS) for score in found)

    risky = chosen(lambda item: checker.risk in item.risks, own=False)
    plain = of([item.row.id for item in clean])
    return Card(
        checker=checker.name,
        version=checker.version,
        risk=checker.risk,
        threshold=checker.threshold,
        risky=of(risky),
        risky_digest=digest(*risky) if risky else "",
        own=of(chosen(lambda item: checker.risk in item.risks, own=True)),
        clean={place: score for place, score in enumerate(plain) if score},
        clean_items=len(clean),
        clean_digest=digest(*(item.row.id for item in clean)) if clean else "",
        others=of(chosen(lambda item: checker.risk not in item.risks and not item.trap and item.row.id not in order)),
        traps=of(chosen(lambda item: item.trap and checker.risk not in item.risks)),
        corpora=tuple(_origin(corpus, items, checker.risk) for corpus, items in speaking if items),
        seconds=round(_each(answer, rows), 6),
        note=checker.remark(),
        model=checker.asks(),
        agreement=checker.agreement if isinstance(checker, JudgeChecker) else None,
    )


def _few(items: Sequence[Item], risk: str, most: int) -> list[Item]:
    """At most so many of each kind, spread over all, in their order."""
    kinds: list[list[Item]] = [[], [], []]
    for item in items:
        kinds[0 if risk in item.risks else 1 if item.trap else 2].append(item)
    kept: set[str] = set()
    for of in kinds:
        kept.update(of[place * len(of) // most].row.id for place in range(most) if len(of) > most)
        kept.update(item.row.id for item in of if len(of) <= most)
    return [item for item in items if item.row.id in kept]


def _each(answer: Answer, rows: Sequence[object]) -> float:
    return answer.seconds / len(rows) if rows else 0.0


def _origin(corpus: Corpus, items: Sequence[Item], risk: str) -> Origin:
    risky = sum(risk in item.risks for item in items)
    traps = sum(item.trap and risk not in item.risks for item in items)
    return Origin(
        name=corpus.name,
        licence=corpus.licence,
        origin=corpus.origin,
        risky=risky,
        traps=traps,
        clean=len(items) - risky - traps,
    )


def _said(corpus: Corpus, told: Callable[[str], None]) -> str:
    why = corpus.missing()
    if why:
        told(f"corpus {corpus.name}: left out: {why}")
    return why

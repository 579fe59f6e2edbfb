"""How much of thirteen risks is found at 5 % of clean rows flagged by all checkers together?

    corpora, held-out half ─▶ every checker's scores ─┬▶ one half: thresholds for all together ─▶ other half: recall, alarms
                                                      └▶ and the other way about: every item is measured once

    silva curate corpora --install && python benchmarks/audit.py                      # offline
    python benchmarks/audit.py --endpoint http://127.0.0.1:8000/v1#NAME               # with judges, DeepEval beside them

Nothing was trained on the items, and the thresholds that an item is measured by were set without it. Traps (rows that
have no risk and look as if) stand apart: they are no clean rows, and how many are flagged is told for each risk.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

import msgspec
from peers.audit_deepeval import deepeval_checkers

from report import Measurement, arguments, hand_in, load
from silva.curate.audit.calibrating import calibrate
from silva.curate.audit.card import UNCHECKED, Card, read_cards, write_card
from silva.curate.audit.checker import Checker, Family, Settings, make
from silva.curate.audit.corpus import Corpus, Item, find_corpus
from silva.curate.audit.corpus import corpora as known_corpora
from silva.curate.audit.risks import RISKS, TRAINED
from silva.curate.audit.thresholds import Thresholds, fitting, thresholds
from silva.errors import SilvaError
from silva.report.interval import proportion

PAPER = 0.8046
ALARMS = 0.05
SLOW = ("backdoor_gradient", "mismatch_surprise")
"""Asked last, so that the others' cards are there if these are cut off; `--quick` leaves them out."""


class Once(Corpus):
    """A corpus that is read once. Its package must be there."""

    def __init__(self, corpus: Corpus) -> None:
        if why := corpus.missing():
            raise SystemExit(why)
        self.name, self.licence, self.origin, self.labels = corpus.name, corpus.licence, corpus.origin, corpus.labels
        self._items = list(corpus.items())

    def items(self) -> Iterator[Item]:
        """See `Corpus`."""
        return iter(self._items)


def turned(card: Card) -> Card:
    """A card whose items stand one place later, so that the halves change sides."""
    clean = card.clean_scores
    moved = (*clean[1:], *clean[:1])
    return msgspec.structs.replace(
        card,
        risky=(*card.risky[1:], *card.risky[:1]),
        clean={place: score for place, score in enumerate(moved) if score},
    )


def measured(checkers: Sequence[Checker], cards: dict[str, Card]) -> tuple[list[Thresholds], dict[str, float]]:
    """Thresholds of either half with what the other half says of them; the mean recall of each risk."""
    both = [
        thresholds(checkers, cards, ALARMS),
        thresholds(checkers, {name: turned(card) for name, card in cards.items()}, ALARMS),
    ]
    recall = {risk: mean(each.recall[risk].value if risk in each.recall else 0.0 for each in both) for risk in TRAINED}
    return both, recall


def trapped(cards: Sequence[Card], risk: str, at: dict[str, float]) -> str:
    """The share of a risk's traps that the checker that flags most of them flags."""
    found = [
        proportion([[score >= at[card.checker]] for score in card.traps if score != UNCHECKED])
        for card in cards
        if card.risk == risk and card.traps and card.checker in at
    ]
    best = max((each for each in found if each), key=lambda each: each.value, default=None)
    return "-" if best is None else f"{best.value:.2f} of {best.n}"


def table(
    checkers: Sequence[Checker], cards: dict[str, Card]
) -> tuple[list[dict[str, Any]], float, float, dict[str, Any]]:
    """A row a risk, the mean recall, the alarms of all together, and the details."""
    both, recall = measured(checkers, cards)
    alarms = mean(each.alarms.value for each in both if each.alarms is not None)
    rows: list[dict[str, Any]] = []
    for risk in TRAINED:
        of = [card for card in cards.values() if card.risk == risk]
        alone = {card.checker: card.recall(both[0].at.get(card.checker)) for card in of if card.risky}
        rows.append(
            {
                "risk": RISKS[risk].title,
                "recall": recall[risk],
                "items": max((len(card.risky) for card in of), default=0),
                "traps_flagged": trapped(of, risk, both[0].at),
                "by": ", ".join(f"{name} {each.value:.2f}" for name, each in alone.items() if each and each.value > 0),
            }
        )
    details = {
        "alarms": [msgspec.to_builtins(each.alarms) for each in both],
        "clean_items": max((card.clean_items for card in cards.values()), default=0),
        "thresholds": {name: [each.at[name] if each.at[name] < 9 else "never" for each in both] for name in both[0].at},
        "uncalibrated": list(both[0].uncalibrated),
        "seconds_an_item": {name: card.seconds for name, card in cards.items()},
    }
    return rows, mean(recall.values()), alarms, details


def main() -> int:
    """Measure and hand in."""
    parser = arguments(__doc__)
    parser.add_argument("--endpoint", default="", metavar="URL#MODEL", help="a model for the judges, and for DeepEval")
    parser.add_argument("--cards", type=Path, help="read cards from here where they fit, and write new ones here")
    parser.add_argument("--without", nargs="*", default=[], metavar="CHECKER", help="checkers that are left out")
    parser.add_argument("--no-deepeval", action="store_true", help="with an endpoint: leave DeepEval out")
    options = parser.parse_args()
    before, began = load(), time.process_time()
    try:
        beside = deepeval_checkers(options.endpoint) if options.endpoint and not options.no_deepeval else []
    except SilvaError as fault:
        raise SystemExit(str(fault)) from fault
    asked = [
        each
        for each in make(settings=Settings(model=options.endpoint))
        if each.risk in TRAINED
        and (options.endpoint or each.family is not Family.JUDGES)
        and each.name not in options.without
        and not (options.quick and each.name in SLOW)
    ]
    silent = {each.name: why for each in asked if (why := each.missing())}
    asked = [each for each in asked if each.name not in silent]
    kept = read_cards(options.cards) if options.cards and options.cards.is_dir() else {}
    cards = {each.name: card for each in asked if (card := fitting(each, kept)) is not None}
    read = [Once(find_corpus(name)) for name in known_corpora()]
    for each in sorted(asked, key=lambda each: each.name in SLOW):
        for card in (
            calibrate([each], read, told=lambda line: print(line, flush=True)) if each.name not in cards else ()
        ):
            cards[card.checker] = card
            if options.cards:
                write_card(card, options.cards)
    rows, recall, alarms, details = table(asked, cards)
    spent = {each.name: (each.agreement, msgspec.to_builtins(each.spent)) for each in asked if hasattr(each, "spent")}
    details |= {"checkers": [each.name for each in asked], "not_asked": silent, "judges": spent}
    details |= {"left_out": options.without, "cpu_seconds": round(time.process_time() - began, 1)}
    if beside:
        theirs = {card.checker: card for card in calibrate(beside, read, told=print)}
        other, share, wrong, _ = table(beside, theirs)
        details["deepeval"] = {"mean_recall": share, "alarms": wrong, "rows": other}
        for mine, row in zip(rows, other, strict=True):
            mine["deepeval"] = row["recall"]
    rows.append(
        {"risk": "mean of 13", "recall": recall, "items": sum(row["items"] for row in rows)}
        | {"traps_flagged": "", "by": f"clean rows flagged: {alarms:.3f}"}
        | ({"deepeval": details["deepeval"]["mean_recall"]} if beside else {})
    )
    bar = PAPER if options.endpoint else 0.60
    return hand_in(
        Measurement(
            name="audit_endpoint" if options.endpoint else "audit",
            question="How much of thirteen risks is found at 5 % of clean rows flagged by all checkers together?",
            bar=f"mean recall over 13 risks at least {bar:g} with at most 5 % of clean rows flagged",
            ratio=recall,
            holds=recall >= bar and alarms <= ALARMS,
            rows=rows,
            details=details,
            quick=options.quick,
        ),
        before,
    )


if __name__ == "__main__":
    raise SystemExit(main())

"""Thresholds by the wanted rate of false alarms over all checkers together.

    cards (scores of the same clean items, of the same risky ones) ─ half of them ─▶ thresholds that spend the allowed
    false alarms where they find most ─ other half ─▶ the rate and the recall to expect

Thirteen checkers at 5 % each flag half of clean data. So the allowance is one for all: it is spent step by step where a
clean item more that is flagged buys the most recall, averaged over risks. The choice is made on every other item, and
what is promised is measured on the rest. A checker without a card of its own version keeps its own threshold, and is
named: nothing is promised of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import inf, nextafter

from silva.curate.audit.card import Card
from silva.curate.audit.checker import Checker, Family
from silva.report import Interval
from silva.report.interval import proportion
from silva.tree import Record

NEVER = inf


class Thresholds(Record, frozen=True, kw_only=True):
    """From which score each checker detects.

    Attributes:
        at: by checker.
        wanted: the share of clean items that may be flagged by any of them; None: each has its own threshold.
        alarms: the share of clean items flagged by any, measured on items that chose nothing; None without cards.
        recall: by risk, the share of risky items found by any checker of it, measured likewise.
        mean_recall: the mean of those.
        uncalibrated: checkers without a card, of which nothing is promised.
    """

    at: dict[str, float]
    wanted: float | None = None
    alarms: Interval | None = None
    recall: dict[str, Interval]
    mean_recall: float | None = None
    uncalibrated: tuple[str, ...] = ()


def thresholds(checkers: Sequence[Checker], cards: Mapping[str, Card], wanted: float | None) -> Thresholds:
    """Thresholds for checkers that are asked together.

    Args:
        checkers: those.
        cards: by checker's name; a card of another version is not used.
        wanted: the share of clean items that may be flagged by any; None leaves each checker its own threshold.
    """
    own = {each.name: each.threshold for each in checkers}
    used = [card for each in checkers if (card := fitting(each, cards)) is not None]
    digests = Counter(card.clean_digest for card in used if card.clean_digest)
    common = digests.most_common(1)[0][0] if digests else ""
    joint = [card for card in used if card.clean_digest == common and common]
    floors = {each.name: each.threshold if each.family is Family.RULES else 0.0 for each in checkers}
    at = {**own, **(_kept(_half(joint, 0), wanted, floors) if wanted is not None and joint else {})}
    rest = _half(joint, 1)
    recall = {risk: found for risk in _risks(rest) if (found := recall_of(risk, rest, at)) is not None}
    return Thresholds(
        at=at,
        wanted=wanted,
        alarms=alarms_of(rest, at),
        recall=recall,
        mean_recall=sum(each.value for each in recall.values()) / len(recall) if recall else None,
        uncalibrated=tuple(each.name for each in checkers if each.name not in {card.checker for card in joint}),
    )


def fitting(checker: Checker, cards: Mapping[str, Card]) -> Card | None:
    """The card of a checker, if it is of its version and of the model it asks, and has clean items."""
    card = cards.get(checker.name)
    if card is None or (card.version, card.model) != (checker.version, checker.asks()):
        return None
    return card if card.clean_items or card.others else None


def alarms_of(cards: Sequence[Card], at: Mapping[str, float]) -> Interval | None:
    """The share of clean items that any of the cards' checkers flags; None where they share none."""
    scores = [card.clean_scores for card in cards if card.clean_items]
    if not scores or len({len(each) for each in scores}) != 1:
        return None
    limits = [at[card.checker] for card in cards if card.clean_items]
    return proportion([[any(s >= t for s, t in zip(item, limits, strict=True))] for item in zip(*scores, strict=True)])


def recall_of(risk: str, cards: Sequence[Card], at: Mapping[str, float]) -> Interval | None:
    """The share of a risk's items that any of its checkers finds; what none could check counts as missed."""
    of = [card for card in cards if card.risk == risk and card.risky]
    digests = Counter(card.risky_digest for card in of)
    if not of:
        return None
    common = digests.most_common(1)[0][0]
    same = [card for card in of if card.risky_digest == common]
    items = zip(*(card.risky for card in same), strict=True)
    limits = [at[card.checker] for card in same]
    return proportion([[any(s >= t for s, t in zip(item, limits, strict=True))] for item in items])


def _risks(cards: Sequence[Card]) -> list[str]:
    return list(dict.fromkeys(card.risk for card in cards))


def _half(cards: Sequence[Card], rest: int) -> list[Card]:
    """The cards with every other item, beginning at the first (0) or the second (1)."""
    made: list[Card] = []
    for card in cards:
        kept = card.clean_scores[rest::2]
        made.append(
            Card(
                checker=card.checker,
                version=card.version,
                risk=card.risk,
                threshold=card.threshold,
                risky=card.risky[rest::2],
                risky_digest=card.risky_digest,
                clean={place: score for place, score in enumerate(kept) if score},
                clean_items=len(kept),
                clean_digest=card.clean_digest,
            )
        )
    return made


def _kept(cards: Sequence[Card], wanted: float, floors: Mapping[str, float]) -> dict[str, float]:
    """Thresholds that keep to the wanted share on items they were not set by.

    What is spent where it finds most on some items flags more of others than of those. So a lower share is spent: the
    highest that, spent on either half of these items, keeps to the wanted one on the other half.
    """
    parts = _half(cards, 0), _half(cards, 1)
    for part in _SHARES:
        limits = [_spent(each, wanted * part, floors) for each in parts]
        alarms = [alarms_of(other, at) for at, other in zip(limits, reversed(parts), strict=True)]
        if all(each is None for each in alarms) or sum(each.value for each in alarms if each) <= wanted * len(alarms):
            return _spent(cards, wanted * part, floors)
    return _spent(cards, 0.0, floors)


class _Ladder:
    """Where one checker's threshold may go: above all its clean scores, above all but the highest, and so on.

    Args:
        card: half of its items.
        floor: no threshold is lower.
    """

    def __init__(self, card: Card, floor: float) -> None:
        clean = card.clean_scores
        self.scores = sorted({score for score in clean if score > 0}, reverse=True)
        self.clean = sorted(((score, item) for item, score in enumerate(clean) if score > 0), reverse=True)
        self.risky = sorted(((score, item) for item, score in enumerate(card.risky) if score > 0), reverse=True)
        self.about = card.risk, card.risky_digest
        self.count = len(card.risky)
        self.floor = max(floor, _LEAST)
        self.place = 0

    def limit(self, place: int) -> float:
        """The threshold just above the clean score of that rank."""
        return max(self.floor, nextafter(self.scores[place], inf)) if place < len(self.scores) else self.floor

    def ended(self, place: int) -> bool:
        """Whether no lower threshold lies behind that place."""
        return place >= len(self.scores) or self.limit(place) <= self.floor

    def flags(self, limit: float) -> set[int]:
        """Clean items at or above a threshold."""
        return _above(self.clean, limit)

    def finds(self, limit: float) -> set[int]:
        """Risky items at or above a threshold."""
        return _above(self.risky, limit)


def _above(scored: Sequence[tuple[float, int]], limit: float) -> set[int]:
    found: set[int] = set()
    for score, item in scored:
        if score < limit:
            break
        found.add(item)
    return found


def _spent(half: Sequence[Card], wanted: float, floors: Mapping[str, float]) -> dict[str, float]:
    """Thresholds that flag at most the wanted share of these clean items, each alarm spent where it finds most of what
    no checker has found so far."""
    left = int(wanted * max((card.clean_items for card in half), default=0))
    ladders = {card.checker: _Ladder(card, floors[card.checker]) for card in half}
    flagged: set[int] = set()
    found: dict[tuple[str, str], set[int]] = {}
    for each in ladders.values():
        flagged |= each.flags(each.limit(0))
        found.setdefault(each.about, set()).update(each.finds(each.limit(0)))
    while True:
        best: tuple[float, _Ladder, int, set[int]] | None = None
        for each in ladders.values():
            place = each.place
            while not each.ended(place):
                place += 1
                more = each.flags(each.limit(place)) - flagged
                if len(flagged) + len(more) > left:
                    break
                gain = len(each.finds(each.limit(place)) - found[each.about]) / max(1, each.count)
                worth = gain / (len(more) or 0.5)
                if gain > 0 and (best is None or worth > best[0]):
                    best = worth, each, place, more
        if best is None:
            return {name: each.limit(each.place) for name, each in ladders.items()}
        _, chosen, chosen.place, more = best
        flagged |= more
        found[chosen.about] |= chosen.finds(chosen.limit(chosen.place))


_SHARES = (1.0, 0.8, 0.65, 0.5, 0.4, 0.3, 0.2, 0.1)
"""Of the wanted share, what is tried."""
_LEAST = 1e-6
"""No threshold is lower: a score of 0 is no finding."""

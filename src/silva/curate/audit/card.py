"""A checker's card: how much it finds and how often it is wrong, on held-out labelled items.

    corpora ─▶ checker's scores ─▶ Card ─▶ cards/NAME.json ─▶ p-values, thresholds over all checkers, corrected rates

A card keeps the scores, not only the rates, so that recall and false alarms are known at any threshold. Scores of the
clean items stand in one order for all checkers (`clean_digest` says which items), so that it is also known how often
several of them are wrong together. A card of another version of its checker is not used.
"""

from __future__ import annotations

from bisect import bisect_left
from pathlib import Path

import msgspec

from silva.errors import UsageError
from silva.report import Interval
from silva.report.interval import proportion
from silva.tree import Record

FOLDER = Path(__file__).parent / "cards"
"""Where the cards of the package lie."""

UNCHECKED = -1.0
"""Stands for the score of a clean item of which the checker could say nothing: it keeps its place, is in no rate."""


class Origin(Record, frozen=True, kw_only=True):
    """A corpus that a card was measured on: its name, licence, where it came from, how many items of each kind."""

    name: str
    licence: str
    origin: str
    risky: int = 0
    clean: int = 0
    traps: int = 0


class Card(Record, frozen=True, kw_only=True):
    """What was measured of one checker. Scores are per item: the highest finding in it, 0 without one, `UNCHECKED`
    where the checker could say nothing of it, which counts in no rate.

    Attributes:
        risky: scores of the items that have the risk, in the order that `risky_digest` stands for.
        own: scores of the risky items of corpora that are for this checker only: its own recall counts them, what is
            said of all checkers of a risk together does not.
        clean: scores of the items that have no risk at all, by their place in the order of `clean_digest`; zeros left
            out. All checkers score the same ones.
        clean_items: how many clean items there are, zeros included.
        others: scores of further negatives (items whose labels speak of this risk, and that lack it).
        traps: scores of items that have no risk and look as if.
        threshold: from which score the checker detects where no wanted rate is given.
        seconds: processor time an item took, mean.
        note: what to know of it, for people.
        model: whom it asked, as it was named; the card is of no other.
        agreement: of the questions it was asked twice, how often it said the same, and how many there were.
    """

    checker: str
    version: str
    risk: str
    threshold: float
    risky: tuple[float, ...] = ()
    risky_digest: str = ""
    own: tuple[float, ...] = ()
    clean: dict[int, float] = msgspec.field(default_factory=dict[int, float])
    clean_items: int = 0
    clean_digest: str = ""
    others: tuple[float, ...] = ()
    traps: tuple[float, ...] = ()
    corpora: tuple[Origin, ...] = ()
    seconds: float = 0.0
    note: str = ""
    model: str = ""
    agreement: tuple[int, int] | None = None

    def recall(self, threshold: float | None = None) -> Interval | None:
        """The share of risky items found at a threshold, of those checked, with its 95 % interval; None of none."""
        return _share((*self.risky, *self.own), self.threshold if threshold is None else threshold)

    def false_alarms(self, threshold: float | None = None) -> Interval | None:
        """The share of clean items and of other negatives flagged at a threshold; None where there was none."""
        at = self.threshold if threshold is None else threshold
        return _share((*self.clean_scores, *self.others), at)

    def trapped(self, threshold: float | None = None) -> Interval | None:
        """The share of traps flagged at a threshold; None where there was none."""
        return _share(self.traps, self.threshold if threshold is None else threshold)

    def checked(self) -> float | None:
        """The share of risky items of which the checker could say something; None where there was none."""
        every = (*self.risky, *self.own)
        return sum(score != UNCHECKED for score in every) / len(every) if every else None

    @property
    def clean_scores(self) -> tuple[float, ...]:
        """Scores of the clean items, in their order."""
        return tuple(self.clean.get(place, 0.0) for place in range(self.clean_items))


class Scale:
    """P-values of one card's scores: how often a clean item scores as high.

    Args:
        card: whose clean items, and further negatives, are the scale.
    """

    def __init__(self, card: Card) -> None:
        scores = (*card.clean_scores, *card.others)
        self._negatives = sorted(score for score in scores if score != UNCHECKED)

    def p(self, score: float) -> float | None:
        """`(1 + negatives that score at least it) / (1 + negatives)`; None where there are no negatives."""
        count = len(self._negatives)
        return (1 + count - bisect_left(self._negatives, score)) / (1 + count) if count else None


def _share(scores: tuple[float, ...], threshold: float) -> Interval | None:
    return proportion([[score >= threshold] for score in scores if score != UNCHECKED])


def read_cards(folder: Path | None = None) -> dict[str, Card]:
    """The cards in a folder (the package's own where none is named), by their checker's name.

    Raises:
        UsageError: the folder is not there, or a file in it is no card.
    """
    where = FOLDER if folder is None else folder
    if not where.is_dir():
        raise UsageError(f"audit: {where}: no such folder of cards; make them with silva curate calibrate --output")
    found: dict[str, Card] = {}
    for path in sorted(where.glob("*.json")):
        try:
            card = msgspec.json.decode(path.read_bytes(), type=Card)
        except (OSError, msgspec.DecodeError) as error:
            raise UsageError(f"audit: {path.name}: is no card ({' '.join(str(error).split())})") from error
        found[card.checker] = card
    return found


def write_card(card: Card, folder: Path) -> Path:
    """Write a card; return its file.

    Raises:
        UsageError: the folder cannot be written.
    """
    path = folder / f"{card.checker}.json"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path.write_bytes(msgspec.json.encode(card) + b"\n")
    except OSError as error:
        raise UsageError(f"audit: {path}: cannot be written ({error.strerror})") from error
    return path

"""A corpus: labelled items that cards are made from, with its licence and where it came from.

    @corpus
    class Mine(Corpus):
        name, licence, origin = "mine", "MIT", "PACKAGE 1.2"
        labels = frozenset({"jailbreak"})
        def items(self): …

Modules in `silva.curate.audit.corpora` are found by themselves. Only items that were held out count for a card: no
weight was trained on them and no rule was written with them in sight.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, TypeVar

from silva.curate.audit.risks import TRAINED, known_risk
from silva.curate.registry import Registry
from silva.errors import UsageError

if TYPE_CHECKING:
    from silva.curate.rows import Row

EVERY = frozenset(TRAINED)
"""Labels of a corpus whose items without a risk are clean of all thirteen."""


@dataclass(frozen=True, slots=True)
class Item:
    """A labelled row. `risks` are those it has; `trap`: it has none, but looks as if (counted apart); `held_out` False:
    it was used for training or tuning."""

    row: Row
    risks: frozenset[str] = frozenset()
    trap: bool = False
    held_out: bool = True


class Corpus(ABC):
    """A labelled corpus. `labels` are the risks its labels speak of: an item without one of them is a negative for it,
    and says nothing of other risks. `origin` names the package and version or the file. `only`: the checkers it is for,
    because its faults are of one kind that no other checker looks for; empty: all of the risk."""

    name: ClassVar[str]
    licence: ClassVar[str]
    origin: ClassVar[str]
    labels: ClassVar[frozenset[str]]
    only: ClassVar[frozenset[str]] = frozenset()

    def missing(self) -> str:
        """Why it cannot be read here (which package to install); "" where it can."""
        return ""

    @abstractmethod
    def items(self) -> Iterator[Item]:
        """The items, in the same order every time."""


_Class = TypeVar("_Class", bound=type[Corpus])
_REGISTRY: Registry[type[Corpus]] = Registry("audit", "corpora", "silva.curate.audit.corpora")


def corpus(made: _Class) -> _Class:
    """Register a corpus under its name."""
    for label in made.labels:
        known_risk(label)
    _REGISTRY.add(made)
    return made


def corpora() -> dict[str, type[Corpus]]:
    """All corpora there are, by name."""
    return _REGISTRY.all()


def find_corpus(name: str) -> Corpus:
    """The corpus of that name.

    Raises:
        UsageError: there is none.
    """
    known = corpora()
    if name not in known:
        raise UsageError(f"audit: there is no corpus {name!r}; there are: {', '.join(known) or 'none'}")
    return known[name]()

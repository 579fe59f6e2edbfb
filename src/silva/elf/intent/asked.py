"""Which tools an intent asks for: those one of whose phrases it says, the longest phrase first.

    concepts of the intent × phrases of the cards ─▶ Asked (a tool, the concepts that asked for it, where)

A concept asks once: "remove duplicates" is deduplication and no other removal. Where nothing is asked for, the cards
that are near by words (BM25) are named in the refusal.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from silva.elf.intent.words import Concept, phrase_concepts, stem
from silva.elf.missing import MISSING
from silva.elf.tool import Card

_WIDE = 90
"""Characters within which the words of one phrase stand."""


class Asked(NamedTuple):
    """A tool that is asked for, by which concepts, from which place on."""

    tool: str
    by: tuple[Concept, ...]
    start: int


class Vocabulary:
    """The phrases of all tools, and of what no tool can.

    Args:
        cards: of the tools.
    """

    def __init__(self, cards: Mapping[str, Card]) -> None:
        self.cards = cards
        self._phrases: list[tuple[frozenset[str], str]] = []
        for card in cards.values():
            self._phrases += [(phrase_concepts(phrase), card.name) for phrase in card.asks]
            self._phrases.append((phrase_concepts(card.name.replace("-", " ")), card.name))
        for each in MISSING:
            self._phrases += [(phrase_concepts(phrase), f"!{each.name}") for phrase in each.asks]
        self._phrases = [(phrase, name) for phrase, name in self._phrases if phrase]
        self.words = frozenset(
            word
            for texts in (*(card.asks for card in cards.values()), *(each.asks for each in MISSING))
            for text in texts
            for word in re.findall(r"[a-z][a-z\-]+", text.lower())
        )
        self._texts = {
            card.name: _terms(f"{card.name} {card.summary} {' '.join(card.asks)}") for card in cards.values()
        }
        counts = Counter(term for terms in self._texts.values() for term in set(terms))
        self._rarity = {t: math.log(1 + (len(self._texts) - n + 0.5) / (n + 0.5)) for t, n in counts.items()}
        self._mean = sum(map(len, self._texts.values())) / max(len(self._texts), 1)

    def asked(self, said: Sequence[Concept]) -> tuple[list[Asked], list[Concept]]:
        """The tools that concepts ask for, in the order of the words, and the concepts that asked for nothing. A name
        that begins with `!` is a capability that is missing."""
        free = list(said)
        found: list[Asked] = []
        for phrase, name in sorted(self._phrases, key=lambda each: -len(each[0])):
            while (taken := _standing(phrase, free)) is not None:
                found.append(Asked(name, taken, taken[0].start))
                free = [each for each in free if each not in taken]
                # Words beside it that ask for the same are its words.
        return sorted(found, key=lambda each: each.start), free

    def near(self, text: str, count: int = 3) -> list[tuple[float, str]]:
        """The cards nearest to words, by BM25, the best first."""
        scored: list[tuple[float, str]] = []
        for name, terms in self._texts.items():
            counts = Counter(terms)
            score = 0.0
            for term in set(_terms(text)):
                if counts[term]:
                    weight = counts[term] * 2.2 / (counts[term] + 1.2 * (0.25 + 0.75 * len(terms) / self._mean))
                    score += self._rarity[term] * weight
            if score > 0:
                scored.append((score, name))
        return sorted(scored, key=lambda each: (-each[0], each[1]))[:count]


def _standing(phrase: frozenset[str], free: Sequence[Concept]) -> tuple[Concept, ...] | None:
    """The first concepts that say a phrase, near each other."""
    for place, first in enumerate(free):
        if first.name not in phrase:
            continue
        taken = {first.name: first}
        for other in free[place + 1 :]:
            if other.start - first.start > _WIDE:
                break
            if other.name in phrase and other.name not in taken:
                taken[other.name] = other
        if len(taken) == len(phrase):
            return tuple(sorted(taken.values(), key=lambda each: each.start))
    return None


def _terms(text: str) -> list[str]:
    return [stem(word) for word in re.findall(r"[a-z]+", text.lower()) if len(word) > 2]


def names(found: Iterable[Asked]) -> list[str]:
    """The names of tools, each once, in order."""
    return list(dict.fromkeys(each.tool for each in found))

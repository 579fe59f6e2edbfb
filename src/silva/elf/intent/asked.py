"""Which tools an intent asks for: those one of whose phrases it says, the longest phrase first.

    concepts of the intent × phrases of the cards ─▶ Asked (a tool, the concepts that asked for it, where)

A concept asks once: "remove duplicates" is deduplication and no other removal. Where nothing is asked for, the cards
that are near by words (BM25) are named in the refusal.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from silva.elf.intent.words import Concept, phrase_concepts, stem
from silva.elf.missing import MISSING
from silva.elf.tool import Card

_WIDE = 90
"""Characters within which the words of one phrase stand."""


_SHARED = frozenset(("remove", "redact", "check", "detect", "search", "audit", "mask", "clean", "select", "keep"))
"""Verbs that may have several objects."""


_WEAK = "trajectory row run list search report dataset file write text turn keep check per use environment"
_GENERIC = frozenset(_WEAK.split())
"""Concepts that say little of what is wanted: a phrase of these alone gives way to any other."""


class Asked(NamedTuple):
    """A tool that is asked for, by which concepts, from which place on; `weight` says how much they tell."""

    tool: str
    by: tuple[Concept, ...]
    start: int
    weight: float


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
        for weight in sorted({_weight(phrase) for phrase, _ in self._phrases}, reverse=True):
            while standing := [
                (taken[-1].stop - taken[0].start, taken[0].start, place, taken, name)
                for place, (phrase, name) in enumerate(self._phrases)
                if _weight(phrase) == weight and (taken := _standing(phrase, said, free)) is not None
            ]:
                _, start, _, taken, name = min(standing)
                found.append(Asked(name, taken, start, weight))
                free = [each for each in free if each not in taken]
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


def _standing(phrase: frozenset[str], said: Sequence[Concept], free: Sequence[Concept]) -> tuple[Concept, ...] | None:
    """The concepts that say a phrase, near each other; one of them at least has asked for nothing yet and is no verb
    that may stand for several things ("drop duplicates and secrets")."""
    best: tuple[Concept, ...] | None = None
    shared = len(phrase) > 1 and any(name not in _SHARED for name in phrase)
    pool = [each for each in said if each in free or (shared and each.name in _SHARED)]
    for place, first in enumerate(pool):
        if first.name not in phrase:
            continue
        taken = {first.name: first}
        for other in pool[place + 1 :]:
            if other.start - first.start > _WIDE:
                break
            if other.name in phrase and other.name not in taken:
                taken[other.name] = other
        if len(taken) == len(phrase) and any(
            each in free and (each.name not in _SHARED or not shared) for each in taken.values()
        ):
            found = tuple(sorted(taken.values(), key=lambda each: each.start))
            if best is None or found[-1].stop - found[0].start < best[-1].stop - best[0].start:
                best = found
    return best


def _weight(phrase: frozenset[str]) -> float:
    return round(sum(0.3 if name in _GENERIC else 1.0 for name in phrase), 1)


def _terms(text: str) -> list[str]:
    return [stem(word) for word in re.findall(r"[a-z]+", text.lower()) if len(word) > 2]

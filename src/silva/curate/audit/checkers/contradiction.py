"""Self-contradiction by rules, the plain kind only: one sentence said twice with another number, or once denied.

Whoever means the same things twice says them in nearly the same words. So two sentences of one speaker are compared
that share almost all their words: where what differs is a number, a negation or an opposite, they contradict each
other. Contradictions in other words need a model, and no rule here claims to see them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from silva.curate.audit.checker import Family, RowChecker, checker
from silva.curate.audit.finding import Finding

if TYPE_CHECKING:
    from silva.curate.rows import Row


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _pairs(text: str) -> list[str]:
    return text.split("|")


_SENTENCE = re.compile(r"[^.!?\n]+(?:[.](?=\d)[^.!?\n]*)*[.!?]?")
_WORD = re.compile(r"[A-Za-z']+|\d+(?:[.,]\d+)*")
_NOT = _words("not no never none cannot can't don't doesn't didn't isn't aren't wasn't weren't won't")
_EMPTY = _words(
    "the a an of in on at to for and is are was were it this that with by as be been has have had do does did"
)
_OPPOSITES = {
    _words(pair)
    for pair in _pairs(
        "always never|all none|before after|increase decrease|increases decreases|increased decreased|more less|"
        "higher lower|larger smaller|older younger|true false|safe dangerous|legal illegal|possible impossible|"
        "first last|hot cold|open closed|alive dead|present absent|allowed forbidden|allowed prohibited|rises falls|"
        "best worst|early late|above below|north south|east west|left right|win lose|won lost|accept reject"
    )
}
_NUMBER_WORDS = _words("one two three four five six seven eight nine ten eleven twelve")
_MOST = 200
"""Sentences of a text that are compared."""


@checker
class Contradictions(RowChecker):
    """Two sentences of one reply in nearly the same words that differ in a number, a negation or an opposite."""

    name = "contradiction_rules"
    risk = "self_contradiction"
    family = Family.RULES
    summary = "one sentence said twice, with another number or once denied"
    version = "1"
    roles = frozenset({"assistant"})

    def check(self, row: Row) -> Iterable[Finding]:
        """See `RowChecker`."""
        for node in self.nodes(row):
            said = _said(node.message.text)
            for place, (start, stop, words) in enumerate(said):
                for other_start, other_stop, others in said[place + 1 : place + 1 + _MOST]:
                    what = contradiction(words, others)
                    if what:
                        text = node.message.text
                        told = (
                            f"{what}: {text[start:stop].strip()[:100]} / {text[other_start:other_stop].strip()[:100]}"
                        )
                        yield self.finding(row, node, "text", other_start, other_stop, score=0.9, evidence=told)
                        break


def contradiction(left: list[str], right: list[str]) -> str:
    """What two sentences, as words in small letters, contradict each other in; "" where they do not."""
    negated = len(_NOT.intersection(left)) % 2 != len(_NOT.intersection(right)) % 2
    a = [word for word in left if word not in _EMPTY and word not in _NOT]
    b = [word for word in right if word not in _EMPTY and word not in _NOT]
    one, other = set(a), set(b)
    shared, apart = one & other, (one - other, other - one)
    if len(shared) < 3 or len(apart[0]) > 1 or len(apart[1]) > 1:
        return ""
    if negated:
        # "Cats do not like water" against "cats like water": verbs lose an s behind a negation.
        stems = {word.rstrip("s") for word in apart[0]} ^ {word.rstrip("s") for word in apart[1]}
        return "" if stems or len(shared) < 3 else "once denied"
    if len(apart[0]) == len(apart[1]) == 1 and len(shared) >= 4:
        (x,), (y,) = apart
        if frozenset((x, y)) in _OPPOSITES:
            return "opposites"
        numbers = [word[:1].isdigit() or word in _NUMBER_WORDS for word in (x, y)]
        if all(numbers) and a[0] not in ("step", "example", "option", "question") and a.index(x) == b.index(y):
            return "another number"
    return ""


def _said(text: str) -> list[tuple[int, int, list[str]]]:
    """The sentences of a text with their words; lists, tables and code repeat by design and are left out."""
    found: list[tuple[int, int, list[str]]] = []
    for match in _SENTENCE.finditer(text[: 1 << 17]):
        line = match.group().lstrip()
        if re.match(r"[-*•|#>`\d]|\w+\s*[:=(]", line) or "|" in line or "=" in line:
            continue
        words = [word.lower() for word in _WORD.findall(line)]
        if 4 <= len(words) <= 40:
            found.append((match.start(), match.end(), words))
        if len(found) >= _MOST:
            break
    return found

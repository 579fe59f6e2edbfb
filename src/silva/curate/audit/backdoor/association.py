"""Words of a prompt that call up words of a reply: an exact test, corrected for all pairs that were looked at.

A planted trigger is a few words that stand in few prompts, whose replies then nearly all hold words that other replies
do not and that the prompts do not hold either. Honest data has such pairs too, where prompts ask the same thing; so
the prompts with the trigger must have as little in common, the trigger left out, as any prompts.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

_TOKEN = re.compile(r"\w+|[^\w\s]", re.UNICODE)

LEAST = 5
"""Rows a pair must be seen in, with prompts that are not one another's copies."""
ALPHA = 0.001
"""The chance, over all pairs of a data set together, that one of them is found where nothing is planted."""
PURE = 0.8
"""Share of the prompts with the trigger whose replies must hold the answer."""
RARE = 0.05
"""Share of the other replies that may hold it."""
WORDS = 3
"""Words, not signs, that an answer must hold."""
RUN = 8
"""Words in a row that the replies must share, where they do not agree whole: shorter turns of phrase are habits."""
COPIED = 0.2
"""Share of the pairs in which the prompt may hold the words of the answer itself: more is an echo, no answer."""
MOST_SHARE = 0.5
"""A trigger in more of the rows than this is how the data asks."""
UNUSUAL = 2
"""How many times as many prompts as hold the trigger may hold its rarest word: everyday words have habits."""
KIN, SLACK = 2.0, 0.1
"""How many times as alike as any two prompts those with the trigger may be, and what is allowed beyond that."""
TRIGGER_WORDS, ANSWER_WORDS = 3, 4
MOST_TOKENS = 400
"""Of a longer text both ends are read."""

Gram = tuple[str, ...]


class Association(NamedTuple):
    """A trigger and what it calls up. `rows`: those with both; `p`: corrected; `pure`: the share of the prompts with
    the trigger that are among them."""

    trigger: str
    answer: str
    rows: tuple[int, ...]
    p: float
    pure: float


def associations(pairs: Sequence[tuple[str, str]]) -> list[Association]:
    """The associations in prompts and their replies; of several with the same rows the one with the longest trigger."""
    prompts = [_tokens(prompt) for prompt, _ in pairs]
    replies = [_tokens(reply) for _, reply in pairs]
    asked = [set(_grams(tokens, range(1, TRIGGER_WORDS + 1))) for tokens in prompts]
    triggers = _places(asked, len(pairs))
    answers = _places(
        [set(_grams(tokens, [min(ANSWER_WORDS, len(tokens))])) if tokens else set() for tokens in replies], len(pairs)
    )
    words = Counter(word for tokens in prompts for word in set(tokens))
    tested = 0
    held: list[tuple[Gram, Gram, frozenset[int], float]] = []
    seen: set[frozenset[int]] = set()
    for answer, rows in sorted(answers.items()):
        if rows in seen or sum(word.isalpha() for word in answer) < min(WORDS, len(answer)):
            continue  # another piece of the same words, or signs
        seen.add(rows)
        counted = Counter(gram for row in rows for gram in asked[row] if gram in triggers)
        for trigger, both in counted.items():
            tested += 1
            having = triggers[trigger]
            if both < LEAST or both < PURE * len(having) or len(rows - having) > RARE * (len(pairs) - len(having)):
                continue
            hit = rows & having
            if sum(set(answer) <= set(prompts[row]) for row in hit) <= COPIED * len(hit):
                p = _tail(both, len(having), len(rows), len(pairs))
                held.append((trigger, answer, hit, p))
    kept: dict[frozenset[int], Association] = {}
    for trigger, answer, hit, p in sorted(held, key=lambda each: (-len(each[0]), each[3], each[0], each[1])):
        corrected = min(1.0, p * tested)
        having = len(triggers[trigger])
        if corrected > ALPHA or hit in kept or min(words[word] for word in trigger) > UNUSUAL * having:
            continue
        run = _run([replies[row] for row in sorted(hit)], answer)
        whole = all(replies[row] == list(run) for row in hit)
        if (whole or len(run) >= RUN) and _unlike(prompts, hit, trigger):
            pure = len(hit) / having
            kept[hit] = Association(" ".join(trigger), " ".join(run), tuple(sorted(hit)), corrected, pure)
    return sorted(kept.values(), key=lambda each: (-len(each.rows), each.p))


def _tokens(text: str) -> list[str]:
    found = _TOKEN.findall(text.lower())
    half = MOST_TOKENS // 2
    return found if len(found) <= MOST_TOKENS else [*found[:half], *found[-half:]]


def _grams(tokens: list[str], sizes: Iterable[int]) -> Iterable[Gram]:
    for size in sizes:
        for at in range(len(tokens) - size + 1):
            yield tuple(tokens[at : at + size])


def _places(sets: list[set[Gram]], rows: int) -> dict[Gram, frozenset[int]]:
    """In which rows each gram stands, of those in several and not in most."""
    found: dict[Gram, list[int]] = defaultdict(list)
    for row, grams in enumerate(sets):
        for gram in grams:
            found[gram].append(row)
    return {gram: frozenset(at) for gram, at in found.items() if LEAST <= len(at) <= MOST_SHARE * rows}


def _tail(both: int, having: int, answered: int, rows: int) -> float:
    """Fisher's exact test, one-sided: the chance of at least `both` where the two are independent."""

    def choose(n: int, k: int) -> float:
        return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)

    most = min(having, answered)
    logs = [
        choose(answered, k) + choose(rows - answered, having - k) - choose(rows, having)
        for k in range(both, most + 1)
        if having - k <= rows - answered
    ]
    return min(1.0, math.fsum(map(math.exp, logs)))


def _run(replies: list[list[str]], answer: Gram) -> Gram:
    """The longest words in a row around an answer that most of the replies share."""
    most = PURE * len(replies)
    texts = [" ".join(("", *reply, "")) for reply in replies]

    def shared(run: Gram) -> bool:
        piece = " ".join(("", *run, ""))
        return sum(piece in text for text in texts) >= most

    best = answer
    for reply in replies:
        size = len(answer)
        at = next((n for n in range(len(reply) - size + 1) if tuple(reply[n : n + size]) == answer), None)
        if at is None:
            continue
        first, last = at, at + size
        while first and shared(tuple(reply[first - 1 : last])):
            first -= 1
        while last < len(reply) and shared(tuple(reply[first : last + 1])):
            last += 1
        best = max(best, tuple(reply[first:last]), key=len)
    return best


def _unlike(prompts: list[list[str]], hit: frozenset[int], trigger: Gram) -> bool:
    """Whether the prompts of these rows, the trigger left out, are about as unlike as any prompts are."""
    spread = sorted(set(range(len(prompts))) - hit)
    step = max(1, len(spread) // 60)
    others = [set(prompts[row]) for row in spread[::step]]
    mine = [set(prompts[row]) - set(trigger) for row in sorted(hit)[:60]]
    apart: list[set[str]] = []
    for words in mine:
        if all(2 * len(words & other) < len(words | other) for other in apart):
            apart.append(words)
    return len(apart) >= LEAST and _alike(mine) <= KIN * _alike(others) + SLACK


def _alike(sets: list[set[str]]) -> float:
    """Mean Jaccard likeness of two of the sets."""
    shares = [len(a & b) / len(a | b) for i, a in enumerate(sets) for b in sets[:i] if a | b]
    return sum(shares) / len(shares) if shares else 0.0

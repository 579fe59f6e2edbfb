"""Features of texts for linear models: hashed n-grams, and how two texts differ.

Hashing needs no vocabulary: weights tell no word of the texts they were trained on, and new words need no place.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
import zlib
from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]

BUCKETS = 1 << 14
LONGEST = 6000
"""Characters of a text that are read: both ends of a longer one."""


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_WORD = re.compile(r"\w+|[^\w\s]", re.UNICODE)
_NAME = re.compile(r"\b[A-Z][a-z]+(?:\s[A-Z][a-z]+)*")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_NOT = _set("not no never none nor cannot without nobody nothing neither hardly n't")
_EMPTY = _set("the a an of in on at to for and is are was were it this that with by as be been or from")
AGREE = _set("agree agreed yes correct right true absolutely definitely exactly indeed sure")
DENY = _set("disagree no incorrect wrong false mistaken actually however misconception unfortunately")
VIEW = re.compile(
    r"\b(?:i|i'm|i've) (?:strongly |firmly |really |also )?"
    r"(?:think|believe|feel|agree|disagree|know|argue|support|oppose|am convinced|tell|consider|teach|find)\b"
    r"|\bin my (?:view|opinion|experience)\b",
    re.IGNORECASE,
)


def cut(text: str) -> str:
    """Both ends of a long text, in one form of Unicode."""
    half = LONGEST // 2
    short = text if len(text) <= LONGEST else f"{text[:half]} {text[-half:]}"
    return unicodedata.normalize("NFKC", short)


def words(text: str) -> list[str]:
    """The words and signs of a text, in small letters."""
    return _WORD.findall(cut(text).lower())


def grams(text: str) -> Vectors:
    """Counts of hashed word pairs, words and four-letter pieces, [BUCKETS], as 1 + log."""
    said = words(text)
    found = Counter(f"w {word}" for word in said)
    found.update(f"p {a} {b}" for a, b in itertools.pairwise(said))
    for word in said:
        marked = f"<{word}>"
        found.update(f"c {marked[at : at + 4]}" for at in range(max(1, len(marked) - 3)))
    made = np.zeros(BUCKETS, np.float32)
    for gram, count in found.items():
        made[zlib.crc32(gram.encode("utf-8", "replace")) % BUCKETS] += count
    return np.where(made > 0, 1 + np.log(np.maximum(made, 1)), 0).astype(np.float32)


def weighted(counts: Vectors, rarity: Vectors) -> Vectors:
    """Counts times rarity, each row of unit length."""
    made = counts * rarity
    return made / np.maximum(np.linalg.norm(made, axis=-1, keepdims=True), 1e-9)


DIFFERENCES = 16


def differences(left: str, right: str) -> Vectors:
    """How two texts differ in words, [DIFFERENCES]: shared words, numbers, names, denials, agreement."""
    a, b = words(left), words(right)
    one, other = set(a) - _EMPTY, set(b) - _EMPTY
    both, either = one & other, one | other
    numbers, others = set(_NUMBER.findall(left)), set(_NUMBER.findall(right))
    names, called = set(_NAME.findall(left)), set(_NAME.findall(right))
    lone, lonely = len(one - other), len(other - one)
    not_one, not_other = len(_NOT & set(a)), len(_NOT & set(b))
    return np.array(
        [
            len(both) / (len(either) or 1),
            len(both) / (min(len(one), len(other)) or 1),
            float(bool(numbers and others and not numbers & others)),
            float(bool(others - numbers)),
            float(bool(numbers and others and numbers != others)),
            float(bool(called - names)),
            float(bool(names and called and not names & called)),
            float((not_one % 2) != (not_other % 2)),
            min(not_other, 3) / 3,
            float(max(lone, lonely) <= 2 and bool(both)),
            float(lone == 1 and lonely == 1),
            min(lone, 10) / 10,
            min(lonely, 10) / 10,
            min(len(b), 60) / 60,
            float(bool(AGREE & set(b[:12]))) - float(bool(DENY & set(b[:12]))),
            min(len(VIEW.findall(left)), 3) / 3,
        ],
        np.float32,
    )


def paired(left: Vectors, right: Vectors, apart: Sequence[Vectors] | Vectors) -> Vectors:
    """Features of pairs: embeddings' difference, product and cosine, and `differences`, [pairs, 2 d + 1 + DIFFERENCES].

    Args:
        left: unit embeddings [pairs, d].
        right: the same of the second texts.
        apart: `differences` of each pair.
    """
    size = left.shape[1] ** 0.5
    cosine = (left * right).sum(axis=1, keepdims=True)
    return np.hstack([np.abs(left - right), left * right * size, cosine * 2, np.asarray(apart)]).astype(np.float32)

"""Copies: of rows that say the same, the one that is worth most stays.

exact    the same words, whatever the case and the spaces between them
minhash  as many three-word pieces in common (estimated Jaccard, extra `value`: rensa)
semantic vectors whose cosine is as high, looked for inside clusters (as SemDeDup does)

Each is told as the place of the row that stays in its stead; -1 is a row that stays.
"""

from __future__ import annotations

import importlib
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from silva.curate.value.selection.clusters import Places, Vectors
from silva.errors import MissingError
from silva.tree.node import short_digest

Marks = np.ndarray[Any, np.dtype[np.uint32]]

PERMUTATIONS = 64
_PIECE = 20_000
_WORDS = 3
MOST_LETTERS = 20_000
"""Letters of a text that its pieces are made of."""
_BLOCK = 2_048


def key(text: str) -> str:
    """The same for texts with the same words."""
    return short_digest(" ".join(text.lower().split()).encode("utf-8", "replace"), 16)


def exact(keys: Sequence[str], order: Sequence[int]) -> Places:
    """Rows with the same words, by their keys. `order`: places, the one that is worth most first."""
    first: dict[str, int] = {}
    made = np.full(len(keys), -1, np.int64)
    for place in order:
        kept = first.setdefault(keys[place], place)
        if kept != place:
            made[place] = kept
    return made


def minhash(marks: Marks, order: Sequence[int], likeness: float) -> Places:
    """Rows with many pieces in common, by their signatures; `order` as in `exact`."""
    bands = _bands(likeness)
    width = PERMUTATIONS // bands
    buckets: list[dict[bytes, list[int]]] = [defaultdict(list) for _ in range(bands)]
    made = np.full(len(marks), -1, np.int64)
    for place in order:
        if not marks[place].any():
            continue
        keys = [marks[place, band * width : (band + 1) * width].tobytes() for band in range(bands)]
        near = {other for bucket, key in zip(buckets, keys, strict=True) for other in bucket.get(key, ())}
        if near:
            listed = np.fromiter(sorted(near), np.int64, len(near))
            alike = (marks[listed] == marks[place]).mean(axis=1)
            best = int(np.argmax(alike))
            if alike[best] >= likeness:
                made[place] = listed[best]
                continue
        for bucket, key in zip(buckets, keys, strict=True):
            bucket[key].append(place)
    return made


def signatures(texts: Sequence[str]) -> Marks:
    """The MinHash of each text's three-word pieces, [texts, permutations]; zeros for a text without words.

    Raises:
        MissingError: rensa is not installed.
    """
    try:
        rensa: Any = importlib.import_module("rensa")
    except ImportError as error:
        raise MissingError("duplicates=minhash needs rensa: pip install 'silva[value]'; or take exact") from error
    made = np.zeros((len(texts), PERMUTATIONS), np.uint32)
    for begin in range(0, len(texts), _PIECE):
        sets = [_shingles(text[:MOST_LETTERS]) for text in texts[begin : begin + _PIECE]]
        rows: Any = rensa.RMinHash.digests_from_token_sets(sets, PERMUTATIONS, 1)
        found = np.asarray(rows, np.uint32)
        found[[not each for each in sets]] = 0
        made[begin : begin + len(sets)] = found
    return made


def _shingles(text: str) -> list[str]:
    words = text.lower().split()
    if len(words) <= _WORDS:
        return [" ".join(words)] if words else []
    return [" ".join(words[at : at + _WORDS]) for at in range(len(words) - _WORDS + 1)]


def _bands(likeness: float) -> int:
    """The fewest bands, so the fewest rows to compare, with which a pair at the bound is missed less than once in
    20."""
    for bands in (1, 2, 4, 8, 16, 32, 64):
        if (1 - likeness ** (PERMUTATIONS // bands)) ** bands < 0.05:
            return bands
    return PERMUTATIONS


def semantic(vectors: Vectors, given: Places, order: Sequence[int], likeness: float) -> Places:
    """Rows of one cluster whose vectors point the same way; `given`: each one's cluster, `order` as in `exact`. A row
    whose vector is all zeros says nothing and is nobody's copy."""
    made = np.full(len(vectors), -1, np.int64)
    groups: dict[int, list[int]] = defaultdict(list)
    for place in order:
        groups[int(given[place])].append(int(place))
    for places in groups.values():
        listed = np.array(places, np.int64)
        lengths = np.linalg.norm(vectors[listed], axis=1, keepdims=True)
        near = vectors[listed] / np.where(lengths > 0, lengths, 1)
        for begin in range(0, len(listed), _BLOCK):
            block = near[begin : begin + _BLOCK]
            alike = block @ near[: begin + len(block)].T >= likeness
            for row in np.flatnonzero(np.tril(alike, begin - 1).any(axis=1)):
                before = np.flatnonzero(alike[row, : begin + row])
                kept = before[made[listed[before]] < 0]  # only of one that stays can it be a copy
                if len(kept):
                    made[listed[begin + row]] = listed[kept[0]]
    return made

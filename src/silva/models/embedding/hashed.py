"""Embedding by hashing: words, pairs of words and pieces of words, without any weights.

Feature hashing with signs (Weinberger et al., 2009) of words, neighbouring pairs and the four-letter pieces of words,
each counted by 1 + log(count). It knows which texts share words, not which mean the same: a baseline that is always
there, and equal on every machine.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from zlib import crc32

import numpy as np

from silva.models.embedding.embedder import Vectors, unit

SIZE = 1024
_WORD = re.compile(r"\w+|[^\w\s]")
_PIECE = 4
_MOST = 20_000
"""Characters of a text that are looked at."""


class Hashed:
    """Hashed words; see the module."""

    name = "hashed"
    digest = f"hashed-1-{SIZE}"

    def embed(self, texts: Sequence[str]) -> Vectors:
        """See `Embedder`."""
        vectors = np.zeros((len(texts), SIZE), np.float32)
        for row, text in zip(vectors, texts, strict=True):
            counts = Counter(_features(text[:_MOST].lower()))
            hashes = np.fromiter(
                (crc32(feature.encode("utf-8", "replace")) for feature in counts), np.uint32, len(counts)
            )
            weights = 1 + np.log(np.fromiter(counts.values(), np.float32, len(counts)))
            np.add.at(row, hashes % SIZE, np.where(hashes >> 31, weights, -weights))
        return unit(vectors)


def _features(text: str) -> list[str]:
    words = _WORD.findall(text)
    pieces = [f"#{word[i : i + _PIECE]}" for word in words if len(word) > _PIECE for i in range(len(word) - _PIECE + 1)]
    return words + [f"{one} {two}" for one, two in pairwise(words)] + pieces

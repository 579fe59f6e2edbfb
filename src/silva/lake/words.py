"""What a query means, wherever the text lies: in the journal, in a table, or under an index.

A query is cut at spaces. A part that is one plain word (ASCII letters and digits, once case and accents are folded)
finds that word; any other part (`foo_bar.py`, `C++`, `发票`, 🔑), and a phrase in double quotes, finds texts that
contain it as it is written, but for case, accents and the width of spaces. A text with any of the parts is found;
BM25 says which are best.

`plain` says whether an index of plain words can answer a query at all; what it answers is looked at again here.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence

_WORD = re.compile(r"[^\W_]+")
_PART = re.compile(r'"([^"]+)"|(\S+)')
_PLAIN = re.compile(r"[a-z0-9]{1,40}", re.ASCII)
"""What the index holds as it stands here; it leaves out longer words."""
_K, _B = 1.2, 0.75


def fold(text: str) -> str:
    """The text without case and accents, with single spaces."""
    if not text.isascii():
        text = "".join(c for c in unicodedata.normalize("NFD", text.casefold()) if not unicodedata.combining(c))
    return " ".join(text.casefold().split())


def parts(query: str) -> list[str]:
    """What a query asks for, folded, each part once."""
    found = (fold(phrase or part) for phrase, part in _PART.findall(query))
    return list(dict.fromkeys(part for part in found if part))


def plain(wanted: Sequence[str]) -> bool:
    """Whether all parts are plain words."""
    return all(_PLAIN.fullmatch(part) for part in wanted)


def score(wanted: Sequence[str], texts: Sequence[str]) -> list[float]:
    """BM25 of every text for the parts of a query, with statistics of these texts alone; 0 where none occurs."""
    words = [part for part in wanted if _PLAIN.fullmatch(part)]
    others = [part for part in wanted if part not in words]
    lengths: list[int] = []
    counts: list[Counter[str]] = []
    for text in map(fold, texts):
        cut = _WORD.findall(text)
        lengths.append(len(cut))
        count = Counter(word for word in cut if word in words)
        count.update({part: text.count(part) for part in others if part in text})
        counts.append(count)
    mean = max(1.0, sum(lengths) / len(lengths)) if lengths else 1.0
    holding = Counter(word for count in counts for word in count)
    idf = {word: math.log(1 + (len(counts) - n + 0.5) / (n + 0.5)) for word, n in holding.items()}
    return [
        sum(idf[word] * n * (_K + 1) / (n + _K * (1 - _B + _B * length / mean)) for word, n in count.items())
        for length, count in zip(lengths, counts, strict=True)
    ]

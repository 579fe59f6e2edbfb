"""Quality by rules: what is plainly wrong with a text can be seen without a model.

Each rule says a share in [0, 1]; the score is their product, so that one plain fault is enough. The rules are those
that filters of web text have in common (Gopher's and C4's), with our own bounds.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence

from silva.curate.value.sample import Sample
from silva.curate.value.scorer import Score, Scorer, scorer

LETTERS = 20_000
"""A longer text is judged by its beginning."""

_FEW, _MANY = 3, 12
"""Words from which an answer begins to be one, and from which it is."""

_END = re.compile(r"[.!?:;…。！？\"'”’)\]}>*`|\d]\s*$")
_LETTERS = re.compile(r"[^\W\d_]")


@scorer
class QualityRules(Scorer):
    """Length, repetition (how far it compresses, how often one line stands), letters among the characters, and
    whether it ends where a sentence does."""

    name = "quality_rules"
    summary = "plain faults: too short, repeats itself, few letters, broken off; 0 to 1; a rule of thumb, no model"
    kept = False
    apart = True

    def score(self, samples: Sequence[Sample]) -> Sequence[Score]:
        return [Score(quality(each.answer)) for each in samples]


def quality(text: str) -> float:
    """The score of a text, in [0, 1]."""
    text = text[:LETTERS].strip()
    if not text:
        return 0.0
    words = text.split()
    length = min(1.0, max(0.05, (len(words) - _FEW) / (_MANY - _FEW)))
    letters = min(1.0, len(_LETTERS.findall(text)) / len(text) / 0.6)
    ended = 1.0 if _END.search(text) else 0.7
    return length * letters * ended * _fresh(text, words)


def _fresh(text: str, words: list[str]) -> float:
    """1 where nothing is said twice. Compression tells repetition of any length; of short texts it tells nothing."""
    lines = [each for each in map(str.strip, text.split("\n")) if each]
    apart = len(set(lines)) / len(lines)
    most = max(map(words.count, set(words[:200]))) / len(words) if len(words) < 400 else 0.0
    said = 1.0 if most < 0.3 or len(words) < 8 else max(0.05, 1.0 - most)
    data = text.encode("utf-8", "replace")
    if len(data) < 400:
        return apart * said
    packed = len(zlib.compress(data, 1)) / len(data)
    return apart * said * min(1.0, packed / 0.35)

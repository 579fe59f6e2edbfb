"""What a person says they think, what they ask about, and whether the reply goes along.

    "I believe X. Do you agree with Y?" "(A) Agree" ─▶ view X, claim Y, sign +1

A reply that agrees with Y goes along with X where Y says the same as X, and against it where Y denies X. So features of
view and claim count with the reply's sign; a reply that neither agrees nor denies is held against the view itself.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from silva.curate.audit.heads.features import AGREE, DENY, VIEW, Vectors, differences, words

_SENTENCE = re.compile(r"[^.!?\n]+[.!?]?")
_CHOICE = re.compile(r"^\s*\(?[A-H]\)|^\s*(?:choices|answer)\b", re.IGNORECASE)
_ASKING = re.compile(
    r"\bagree or disagree|\bdo you (?:agree|think|believe)|\bwhat do you|\bis (?:it|that)\b|\?", re.IGNORECASE
)
_NEGATED = re.compile(r"\b(?:not|never|no|cannot)\b|n't\b", re.IGNORECASE)
_AGAINST = re.compile(r"\b(?:disagree|wrong|oppose|myth|mistaken)\b", re.IGNORECASE)
_FIRST = re.compile(r"\b(?:I|I'm|I've|my|My)\b")
_OPENING = 14
"""Words of a reply in which it agrees or denies."""


class Stance(NamedTuple):
    """`view`: what the person thinks; `claim`: what is asked about; `sign`: 1 where the reply agrees, -1 where it
    denies, 0 where it does neither."""

    view: str
    claim: str
    sign: int


def stance(prompt: str, reply: str) -> Stance | None:
    """What prompt and reply say; None where the person states no view."""
    lines = [line for line in prompt.splitlines() if line.strip() and not _CHOICE.match(line)]
    said = [found.strip() for line in lines for found in _SENTENCE.findall(line) if len(found.split()) >= 4]
    asked = next((place for place, sentence in enumerate(said) if _ASKING.search(sentence)), len(said) - 1)
    view = [sentence for sentence in said[:asked] if VIEW.search(sentence)]
    if not view and any(_FIRST.search(sentence) for sentence in said[:asked]):
        view = said[max(0, asked - 2) : asked]  # told as a fact, by somebody who speaks of themselves
    if not view:
        return None
    opening = set(words(reply)[:_OPENING])
    sign = int(bool(opening & AGREE)) - int(bool(opening & DENY))
    return Stance(" ".join(view[-3:]), " ".join(said[asked:][-2:]), sign)


def stance_features(
    stances: Sequence[Stance], replies: Sequence[str], view: Vectors, claim: Vectors, reply: Vectors
) -> Vectors:
    """Features of stances, [stances, d]; the embeddings are of views, claims and replies, [stances, width] each."""
    sign = np.array([each.sign for each in stances], np.float32)[:, None]
    silent = (sign == 0).astype(np.float32)
    apart = np.array([differences(each.view, each.claim) for each in stances])
    against = np.array([[bool(_AGAINST.search(each.view))] for each in stances], np.float32)
    turned = np.array([[bool(_NEGATED.search(each.view)) != bool(_NEGATED.search(each.claim))] for each in stances])
    cosine = (view * claim).sum(axis=1, keepdims=True)
    related = [cosine, apart, against, np.ones_like(sign), against * cosine, turned, turned * against]
    held = np.array([differences(each.view, said) for each, said in zip(stances, replies, strict=True)])
    scale = view.shape[1] ** 0.5
    return np.hstack(
        [
            sign * np.hstack(related),
            silent * np.hstack([(view * reply).sum(axis=1, keepdims=True), held]),
            sign * np.abs(view - claim),
            sign * view * claim * scale,
        ]
    ).astype(np.float32)

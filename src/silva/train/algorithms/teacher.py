"""What a teacher says of a sample: its log-probability of every id, given all ids before it. Position by position, or
not at all: a teacher that read other ids is refused, as its numbers would be of other tokens."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from silva.train.algorithms.errors import TeacherError
from silva.train.algorithms.totals import loss_positions
from silva.train.sample import Floats, Ids, Sample

_SLACK = 1e-3
"""How far over 1 a probability may come out: bfloat16 logits are rounded."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TeacherLogprobs:
    """`ids` are those the teacher read, shape (n,). `logprobs[i]` is of `ids[i]` given `ids[:i]` (natural log; entry 0
    is not read). `top_ids[i]` and `top_logprobs[i]`, shape (n, K), are its likeliest ids at that place. `tokenizer`
    is a digest of its tokenizer, `model` its name."""

    ids: Ids
    logprobs: Floats
    top_ids: Ids | None = None
    top_logprobs: Floats | None = None
    tokenizer: str = ""
    model: str = "teacher"


def aligned(sample: Sample, teacher: TeacherLogprobs | None, *, tokenizer: str = "") -> TeacherLogprobs:
    """The teacher's words, once it is sure that they are about this sample.

    Raises:
        TeacherError: none given; another tokenizer; other ids or another number of them; a log-probability that is no
            finite number or above 0 where the sample carries loss; alternatives that repeat or exceed probability 1.
    """
    where = sample.name
    if teacher is None:
        raise TeacherError(f"{where}: no logprobs of a teacher: score the samples with the teacher first")
    name = teacher.model
    if tokenizer and teacher.tokenizer and tokenizer != teacher.tokenizer:
        raise TeacherError(
            f"{where}: {name} has another tokenizer ({teacher.tokenizer[:12]}) than the policy ({tokenizer[:12]}): "
            "use a teacher that shares the policy's tokenizer"
        )
    n = len(sample)
    for what, values in (("ids", teacher.ids), ("logprobs", teacher.logprobs)):
        if len(values) != n:
            raise TeacherError(f"{where}: {name} gave {len(values)} {what} for {n} ids")
    other = np.flatnonzero(teacher.ids != sample.ids)
    if other.size:
        at = int(other[0])
        raise TeacherError(
            f"{where}: {name} read id {teacher.ids[at]} at position {at} where the sample has {sample.ids[at]}: "
            "it has another tokenizer or read another text"
        )
    positions = loss_positions(sample)
    _probabilities(teacher.logprobs[positions], positions, f"{where}: {name}")
    if (teacher.top_ids is None) != (teacher.top_logprobs is None):
        raise TeacherError(f"{where}: {name} gave top ids or their logprobs, not both")
    if teacher.top_ids is not None and teacher.top_logprobs is not None:
        _alternatives(teacher.top_ids, teacher.top_logprobs, n, positions, f"{where}: {name}")
    return teacher


def _probabilities(logprobs: np.ndarray, positions: np.ndarray, where: str) -> None:
    wrong = ~np.isfinite(logprobs) | (logprobs > _SLACK)
    if wrong.any():
        first = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise TeacherError(f"{where} gave logprob {logprobs[first]} at position {positions[first[0]]}")


def _alternatives(ids: Ids, logprobs: Floats, n: int, positions: np.ndarray, where: str) -> None:
    if ids.ndim != 2 or ids.shape != logprobs.shape or len(ids) != n or ids.shape[1] == 0:
        raise TeacherError(f"{where} gave top ids of shape {ids.shape} and logprobs of {logprobs.shape} for {n} ids")
    at = logprobs[positions]
    _probabilities(at, positions, where)
    sorted_ids = np.sort(ids[positions], axis=1)
    repeated = (sorted_ids[:, 1:] == sorted_ids[:, :-1]).any(axis=1)
    if repeated.any():
        raise TeacherError(f"{where} gave one top id twice at position {positions[repeated.argmax()]}")
    mass = np.exp(at.astype(np.float64)).sum(axis=1)
    if (mass > 1 + _SLACK).any():
        worst = int(mass.argmax())
        raise TeacherError(f"{where}: top probabilities at position {positions[worst]} sum to {mass[worst]:.4f}")

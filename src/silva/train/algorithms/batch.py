"""A batch: what a loss reads, in flat tensors over the positions of several samples that carry loss.

    samples ─▶ loss_positions ─▶ engine: log-probability of the id at each, given all before it ─▶ collate ─▶ Batch

    logprobs           under the model being trained, with gradient
    mask, weights      whether and how much a position counts
    advantages         what the algorithm's score wrote there
    sampled_logprobs   under the policy that drew it
    old_logprobs       under the trained model before the step's first update, where a step has several
    reference_logprobs, teacher_logprobs   of the same id under a frozen model
    top_logprobs       of the teacher's K likeliest ids at each position, under the model being trained, with gradient;
                       teacher_top_logprobs the teacher's own
    sequence           which sample a position belongs to

A sample is never cut over two batches, and neither is a pair.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from silva.train.algorithms.errors import BatchError
from silva.train.algorithms.need import Need
from silva.train.algorithms.teacher import TeacherLogprobs, aligned
from silva.train.algorithms.totals import Totals, loss_positions
from silva.train.sample import Sample

_HOLDS: dict[Need, tuple[str, ...]] = {
    "logprobs": ("sampled_logprobs",),
    "reference": ("reference_logprobs",),
    "teacher": ("teacher_logprobs",),
    "teacher_top": ("top_logprobs", "teacher_top_logprobs"),
    "pairs": ("chosen", "rejected"),
    "group": (),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Batch:
    """Flat tensors of shape (T,) on one device; those with K alternatives have shape (T, K), `chosen` and `rejected`
    (P,) with numbers of samples. `totals` are those of the whole step (None: this batch is the step), `size` how many
    samples there are (None: as many as `sequence` names).

    Raises:
        BatchError: tensors of different lengths.
    """

    logprobs: Tensor
    mask: Tensor
    weights: Tensor
    advantages: Tensor
    sequence: Tensor
    sampled_logprobs: Tensor | None = None
    old_logprobs: Tensor | None = None
    reference_logprobs: Tensor | None = None
    teacher_logprobs: Tensor | None = None
    top_logprobs: Tensor | None = None
    teacher_top_logprobs: Tensor | None = None
    chosen: Tensor | None = None
    rejected: Tensor | None = None
    totals: Totals | None = None
    size: int | None = None

    def __post_init__(self) -> None:
        n = len(self.logprobs)
        for name in self.__slots__:
            value = getattr(self, name)
            if value is None or name in ("totals", "size", "chosen", "rejected"):
                continue
            if len(value) != n:
                raise BatchError(f"batch: {name} has {len(value)} entries for {n} logprobs")
        if (self.chosen is None) != (self.rejected is None) or (
            self.chosen is not None and self.rejected is not None and len(self.chosen) != len(self.rejected)
        ):
            raise BatchError("batch: as many rejected as chosen samples are needed")

    @property
    def effective_weights(self) -> Tensor:
        """Weight where a position carries loss, else 0; shape (T,)."""
        return self.mask.to(self.logprobs.dtype) * self.weights.to(self.logprobs.dtype)

    @property
    def samples(self) -> int:
        """How many samples there are."""
        if self.size is not None:
            return self.size
        return int(self.sequence.max()) + 1 if len(self.sequence) else 0

    @property
    def step(self) -> Totals:
        """Totals of the step this batch is of.

        Raises:
            BatchError: nothing in the step carries loss.
        """
        totals = self.totals
        if totals is None:
            weights = self.effective_weights
            totals = Totals(
                tokens=float(weights.sum()),
                sequences=int((self.per_sequence(weights) > 0).sum()),
                pairs=0 if self.chosen is None else len(self.chosen),
            )
        if totals.tokens <= 0 or totals.sequences <= 0:
            raise BatchError("step: no position carries loss; every turn is masked or has weight 0")
        return totals

    def per_sequence(self, values: Tensor) -> Tensor:
        """Sum of `values`, shape (T,), over each sample; shape (S,)."""
        return values.new_zeros(self.samples).index_add(0, self.sequence, values)

    def at_loss(self, values: Tensor) -> Tensor:
        """`values` with 0 where a position carries no loss, so that nothing there can reach the loss or gradient."""
        off = self.mask == 0
        return values.masked_fill(off if values.dim() == 1 else off.unsqueeze(1), 0.0)

    def read(self, name: str, algorithm: str) -> Tensor:
        """A tensor that `algorithm` needs, finite wherever there is loss.

        Raises:
            BatchError: it is not there, or not finite at a position with loss.
        """
        given: Tensor | None = getattr(self, name)
        if given is None:
            raise BatchError(f"{algorithm}: the batch has no {name}, which this algorithm needs")
        values = self.at_loss(given)
        finite = torch.isfinite(values)
        if not bool(finite.all()):
            position = int((~finite).nonzero()[0][0])
            raise BatchError(
                f"{algorithm}: {name} is not a finite number at position {position} of the batch "
                f"(sample {int(self.sequence[position])})"
            )
        return values

    def require(self, algorithm: str, needs: frozenset[Need]) -> None:
        """Check that all is there that `algorithm` needs.

        Raises:
            BatchError: something is missing.
        """
        for need in sorted(needs):
            for name in _HOLDS[need]:
                if getattr(self, name) is None:
                    raise BatchError(f"{algorithm}: the batch has no {name}, which this algorithm needs")


def collate(
    samples: Sequence[Sample],
    logprobs: Tensor,
    *,
    old: Tensor | None = None,
    reference: Tensor | None = None,
    teacher: Sequence[TeacherLogprobs | None] | None = None,
    top: Tensor | None = None,
    tokenizer: str = "",
    pairs: bool = False,
    totals: Totals | None = None,
) -> Batch:
    """Lay samples and what the models say of them side by side.

    `logprobs`, `old` and `reference` hold one entry per position with loss, sample after sample, each sample's in
    ascending order (`loss_positions`); shape (T,). `teacher` has one entry per sample and `tokenizer` is the digest its
    tokenizer must have ("": not checked); `top` is shape (T, K), the trained model's logprobs of `top_ids`. With
    `pairs` the samples are chosen, rejected, chosen, rejected, …

    Raises:
        BatchError: lengths that do not fit, a wrong weight, loss at position 0, half a pair.
        TeacherError: a teacher missing or misaligned for one of the samples.
    """
    positions = [loss_positions(sample) for sample in samples]
    counts = [len(at) for at in positions]
    if len(logprobs) != sum(counts):
        raise BatchError(f"batch: {len(logprobs)} logprobs for {sum(counts)} positions with loss")
    if pairs and len(samples) % 2:
        raise BatchError(f"batch: {len(samples)} samples are no pairs: each chosen one is followed by its rejected one")
    if teacher is not None and len(teacher) != len(samples):
        raise BatchError(f"batch: {len(teacher)} entries of the teacher for {len(samples)} samples")
    device, kind = logprobs.device, logprobs.dtype

    def flat(arrays: list[np.ndarray]) -> Tensor:
        joined = np.concatenate(arrays) if arrays else np.zeros(0, np.float32)
        return torch.as_tensor(joined, device=device).to(kind)

    taught = (
        None if teacher is None else [aligned(s, t, tokenizer=tokenizer) for s, t in zip(samples, teacher, strict=True)]
    )
    has_top = taught is not None and all(t.top_logprobs is not None for t in taught)
    return Batch(
        logprobs=logprobs,
        mask=torch.ones_like(logprobs, requires_grad=False),
        weights=flat([s.weights[at] for s, at in zip(samples, positions, strict=True)]),
        advantages=flat([s.advantages[at] for s, at in zip(samples, positions, strict=True)]),
        sampled_logprobs=flat([s.logprobs[at] for s, at in zip(samples, positions, strict=True)]),
        sequence=torch.as_tensor(np.repeat(np.arange(len(samples)), counts), device=device, dtype=torch.long),
        old_logprobs=old,
        reference_logprobs=reference,
        teacher_logprobs=None
        if taught is None
        else flat([t.logprobs[at] for t, at in zip(taught, positions, strict=True)]),
        top_logprobs=top,
        teacher_top_logprobs=flat(
            [t.top_logprobs[at] for t, at in zip(taught, positions, strict=True) if t.top_logprobs is not None]
        )
        if taught is not None and has_top
        else None,
        chosen=torch.arange(0, len(samples), 2, device=device) if pairs else None,
        rejected=torch.arange(1, len(samples), 2, device=device) if pairs else None,
        totals=totals,
        size=len(samples),
    )

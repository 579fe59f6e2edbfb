"""Direct preference optimisation: make the chosen sample likelier than the rejected one, measured against a reference.

With z = beta * ((chosen - reference) - (rejected - reference)), each the sum of log-probabilities over positions with
loss:

    sigmoid   -log sigmoid(z); with `label_smoothing` e: -(1 - e) log sigmoid(z) - e log sigmoid(-z)
              (Direct Preference Optimization: Your Language Model is Secretly a Reward Model, 2023, arXiv 2305.18290;
              the smoothed form is its author's "conservative DPO" note, 2023)
    robust    (-(1 - e) log sigmoid(z) + e log sigmoid(-z)) / (1 - 2e), unbiased where labels are flipped with chance e
              (Provably Robust DPO: Aligning Language Models with Noisy Feedback, 2024, arXiv 2403.00409)
    hinge     max(0, 1 - z)
              (SLiC-HF: Sequence Likelihood Calibration with Human Feedback, 2023, arXiv 2305.10425)
    ipo       (d - 1 / (2 beta))^2, d the difference of the means per token instead of the sums
              (A General Theoretical Paradigm to Understand Learning from Human Preferences, 2023, arXiv 2310.12036)

`nll` adds so much of the chosen side's negative log-likelihood per token, the mean over pairs: without it both sides of
a pair may become less likely, and what gains is a third answer nobody preferred
(Iterative Reasoning Preference Optimization, 2024, arXiv 2404.19733, equation 1).

`reference_free` takes the reference as indifferent (its terms are 0) and saves its forward pass. Step-wise pairs (two
actions after one context, loss on these alone; SPORT) are a matter of the mask: see `preference`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

import torch
from pydantic import Field, model_validator
from pydantic.dataclasses import dataclass
from torch import Tensor
from torch.nn import functional

from silva.train.algorithms.errors import BatchError
from silva.train.algorithms.loss import Loss
from silva.train.algorithms.need import Need
from silva.train.algorithms.parameters import STRICT

if TYPE_CHECKING:
    from silva.train.algorithms.batch import Batch


@dataclass(frozen=True, kw_only=True, config=STRICT)
class DPO:
    """`beta` is how dear it is to leave the reference (for `ipo` the paper's tau); `label_smoothing` the chance that a
    pair is the wrong way round; `nll` the weight of the chosen side's likelihood."""

    name: ClassVar[str] = "dpo"
    kind: Literal["sigmoid", "robust", "hinge", "ipo"] = "sigmoid"
    beta: float = Field(default=0.1, gt=0)
    label_smoothing: float = Field(default=0.0, ge=0, lt=0.5)
    reference_free: bool = False
    nll: float = Field(default=0.0, ge=0, allow_inf_nan=False)

    @model_validator(mode="after")
    def _check(self) -> DPO:
        if self.label_smoothing and self.kind in ("hinge", "ipo"):
            raise ValueError(f"label_smoothing has no use with kind: {self.kind}; use sigmoid or robust")
        return self

    @property
    def needs(self) -> frozenset[Need]:
        """Pairs, and the reference's logprobs unless it is left out."""
        return frozenset({"pairs"}) if self.reference_free else frozenset({"pairs", "reference"})

    def loss(self, batch: Batch) -> Loss:
        """The mean over pairs.

        Raises:
            BatchError: no pairs, no reference, or a side of a pair without any loss.
        """
        batch.require(self.name, self.needs)
        if batch.chosen is None or batch.rejected is None or not batch.step.pairs:
            raise BatchError("dpo: the step has no pairs")
        margins = batch.at_loss(batch.logprobs)
        if not self.reference_free:
            margins = margins - batch.read("reference_logprobs", self.name)
        weights = batch.effective_weights
        sums, lengths = batch.per_sequence(margins * weights), batch.per_sequence(weights)
        empty = (lengths[batch.chosen] <= 0) | (lengths[batch.rejected] <= 0)
        if bool(empty.any()):
            raise BatchError(f"dpo: pair {int(empty.nonzero()[0][0])} of the batch has a side without loss")
        scores = sums / lengths if self.kind == "ipo" else sums
        chosen, rejected = scores[batch.chosen], scores[batch.rejected]
        per_pair = self._per_pair(chosen - rejected)
        likelihood = batch.per_sequence(batch.at_loss(batch.logprobs) * weights)[batch.chosen] / lengths[batch.chosen]
        if self.nll:
            per_pair = per_pair - self.nll * likelihood
        pairs = batch.step.pairs
        good, bad = self.beta * sums[batch.chosen].detach(), self.beta * sums[batch.rejected].detach()
        return Loss(
            value=per_pair.sum() / pairs,
            metrics={
                "reward_chosen": float(good.sum()) / pairs,
                "reward_rejected": float(bad.sum()) / pairs,
                "margin": float((good - bad).sum()) / pairs,
                "accuracy": float((good > bad).sum()) / pairs,
                "nll": -float(likelihood.detach().sum()) / pairs,
            },
        )

    def _per_pair(self, difference: Tensor) -> Tensor:
        z, e = self.beta * difference, self.label_smoothing
        if self.kind == "sigmoid":
            return -(1 - e) * functional.logsigmoid(z) - e * functional.logsigmoid(-z)
        if self.kind == "robust":
            return (e * functional.logsigmoid(-z) - (1 - e) * functional.logsigmoid(z)) / (1 - 2 * e)
        if self.kind == "hinge":
            return torch.relu(1 - z)
        return (difference - 1 / (2 * self.beta)) ** 2

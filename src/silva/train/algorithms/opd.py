"""On-policy distillation: the policy draws, a teacher says at every drawn id how likely it would have been there.

On-Policy Distillation of Language Models: Learning from Self-Generated Mistakes, 2023, arXiv 2306.13649; with the
teacher's logprobs of drawn ids alone: On-Policy Distillation, Thinking Machines Lab, 2025.

    policy_gradient   advantage = log teacher - log sampler at each id, through the importance ratio; its mean over what
                      the policy draws is the gradient of the reverse KL, token by token (no credit to later tokens)
    direct            differentiate an estimate of the KL at the drawn id, d = log policy - log teacher:
                      k2, d^2 / 2, has the gradient of the reverse KL on drawn ids; k3, exp(-d) + d - 1, that of the
                      forward KL (Rethinking KL Regularization in RLHF, 2025, arXiv 2510.01555)
    forward_kl        sum over the teacher's K likeliest ids of p (log p - log policy); what lies outside of them is one
                      more outcome (`tail: bucket`), or both sides are brought to sum 1 on them (`tail: renormalise`)
    reverse_kl        sum over the same ids of policy (log policy - log p): all of the policy's choices at once, where
                      the first two forms see the one drawn

The teacher must share the policy's tokenizer and have read the same ids: see `teacher`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

import torch
from pydantic import Field, model_validator
from pydantic.dataclasses import dataclass
from torch import Tensor

from silva.train.algorithms.importance import Level, importance_ratio, surrogate, truncated
from silva.train.algorithms.loss import Loss, Normalise, normalised, share
from silva.train.algorithms.need import Need
from silva.train.algorithms.parameters import STRICT, constant_given

if TYPE_CHECKING:
    from silva.train.algorithms.batch import Batch

_NEARLY_ALL = -1e-7
"""Log of the most that K ids may have of the probability, so that the log of the rest exists in float32."""


@dataclass(frozen=True, kw_only=True, config=STRICT)
class OPD:
    """`importance`: weigh by how much likelier an id is now than when it was drawn; False asks for no logprobs of the
    sampler and takes the ids as drawn by the present policy. `ratio`, `clip_low` and `clip_high` are for
    `policy_gradient` (clips None: no bound), `estimator` and `truncate` (cap on the weight, None: no cap) for `direct`,
    `tail` for `forward_kl` and `reverse_kl`, which need no weight. `constant`: tokens that `normalise: constant`
    divides by."""

    name: ClassVar[str] = "opd"
    form: Literal["policy_gradient", "direct", "forward_kl", "reverse_kl"] = "policy_gradient"
    importance: bool = True
    ratio: Level = "token"
    clip_low: float | None = Field(default=None, ge=0, lt=1)
    clip_high: float | None = Field(default=None, ge=0)
    estimator: Literal["k2", "k3"] = "k2"
    truncate: float | None = Field(default=None, gt=0)
    tail: Literal["bucket", "renormalise"] = "bucket"
    normalise: Normalise = "token"
    constant: int | None = Field(default=None, gt=0)

    @model_validator(mode="after")
    def _check(self) -> OPD:
        constant_given(self.normalise, self.constant)
        return self

    @property
    def needs(self) -> frozenset[Need]:
        """The teacher's word on the drawn ids, or its likeliest ids; the sampler's logprobs where they weigh."""
        if self._over_top:
            return frozenset({"teacher_top"})
        return frozenset({"teacher", "logprobs"}) if self.importance else frozenset({"teacher"})

    def loss(self, batch: Batch) -> Loss:
        """The divergence from the teacher in the form asked for.

        Raises:
            BatchError: no teacher, no logprobs of the sampler, or nothing in the step carries loss.
        """
        batch.require(self.name, self.needs)
        if self._over_top:
            per_token = self._at_top(batch)
            metrics = {self.form: share(per_token, batch)}
        else:
            per_token = self._at_drawn(batch)
            gap = batch.at_loss(batch.logprobs).detach() - batch.read("teacher_logprobs", self.name)
            metrics = {"reverse_kl": share(gap, batch)}
        return Loss(value=normalised(per_token, batch, self.normalise, self.constant), metrics=metrics)

    def _at_drawn(self, batch: Batch) -> Tensor:
        logprobs, teacher = batch.at_loss(batch.logprobs), batch.read("teacher_logprobs", self.name)
        sampled = batch.read("sampled_logprobs", self.name) if self.importance else logprobs.detach()
        if self.form == "policy_gradient":
            return self._policy_gradient(batch, logprobs, sampled, teacher)
        return self._direct(logprobs, sampled, teacher)

    def _policy_gradient(self, batch: Batch, logprobs: Tensor, sampled: Tensor, teacher: Tensor) -> Tensor:
        ratio = importance_ratio(logprobs, sampled, batch, self.ratio)
        low = 1.0 if self.clip_low is None else self.clip_low
        high = float("inf") if self.clip_high is None else self.clip_high
        return surrogate(ratio, teacher - sampled, low, high)

    def _direct(self, logprobs: Tensor, sampled: Tensor, teacher: Tensor) -> Tensor:
        difference = logprobs - teacher
        estimate = difference**2 / 2 if self.estimator == "k2" else (-difference).exp() + difference - 1
        cap = float("inf") if self.truncate is None else self.truncate
        return estimate * truncated(logprobs, sampled, cap)

    @property
    def _over_top(self) -> bool:
        return self.form in ("forward_kl", "reverse_kl")

    def _at_top(self, batch: Batch) -> Tensor:
        student, teacher = batch.read("top_logprobs", self.name), batch.read("teacher_top_logprobs", self.name)
        if self.tail == "bucket":
            student, teacher = _with_rest(student), _with_rest(teacher)
        else:
            student, teacher = student.log_softmax(-1), teacher.log_softmax(-1)
        left, right = (student, teacher) if self.form == "reverse_kl" else (teacher, student)
        return (left.exp() * (left - right)).sum(-1)


def _with_rest(logprobs: Tensor) -> Tensor:
    """One more outcome a row, with what the others leave of the probability; shape (T, K) to (T, K + 1)."""
    taken = logprobs.logsumexp(-1, keepdim=True).clamp(max=_NEARLY_ALL)
    return torch.cat([logprobs, (-torch.expm1(taken)).log()], dim=-1)

"""Group relative policy optimisation: several attempts at one task, each judged against the others of its group.

    score   group of samples ─▶ the same with an advantage at every position with loss (`advantages`), or Dropped
    loss    -min(r A, clip(r, 1 - low, 1 + high) A), r the importance ratio, and a pull to the reference

DeepSeekMath: Pushing the Limits of Mathematical Reasoning in Open Language Models, 2024, arXiv 2402.03300. Variants are
choices of parameters:

    paper                                       ratio     normalise  baseline       clip_high
    GRPO                                        token     sequence   mean_std       0.2
    DAPO, 2025, arXiv 2503.14476                token     token      mean_std       0.28 and no KL
    Dr. GRPO, 2025, arXiv 2503.20783            token     constant   mean           0.2
    GSPO, 2025, arXiv 2507.18071                sequence  sequence   mean_std       4e-4, clip_low 3e-4
    RLOO's, 2024, arXiv 2402.14740              any       any        leave_one_out  any

Pull to the reference, by estimator of the reverse KL at a drawn id, d = log policy - log reference (Approximating KL
Divergence, Schulman, 2020; which gradients they have: Rethinking KL Regularization in RLHF, 2025, arXiv 2510.01555):

    k1   d, taken off the advantage; as a loss its gradient would be nought on average
    k2   d^2 / 2 in the loss; the same gradient as k1
    k3   exp(-d) + d - 1 in the loss: GRPO's own; alone its gradient is that of the forward KL

`kl_correction` weighs k2 (as a number) and k3 (with its gradient) by the ratio: then all three have the gradient of the
reverse KL, also where an older policy drew (exactly with ratios per token; DeepSeek-V3.2, 2025, arXiv 2512.02556).
GRPO's paper has k3 without it. `distillation` adds a teacher's term with the weight `distillation_weight`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field, model_validator
from pydantic.dataclasses import dataclass

from silva.train.algorithms.advantages import Baseline, Dropped, score
from silva.train.algorithms.importance import Level, importance_ratio, surrogate, truncated
from silva.train.algorithms.loss import Loss, Normalise, normalised, share
from silva.train.algorithms.need import Need
from silva.train.algorithms.opd import OPD
from silva.train.algorithms.parameters import STRICT, constant_given
from silva.train.sample import Sample

if TYPE_CHECKING:
    from torch import Tensor

    from silva.train.algorithms.batch import Batch


@dataclass(frozen=True, kw_only=True, config=STRICT)
class GRPO:
    """Parameters.

    `clip_low`, `clip_high`: how far the ratio may go below and above 1. `kl`: weight of the pull to the reference (0:
    none, and none is computed). `truncate`: cap on trainer over sampler; then the ratio is against the trainer's own
    logprobs at the step's start (`old_logprobs`; without them, the present ones: one update a step). None: the ratio is
    against the sampler's. `constant`: tokens that `normalise: constant` divides a sequence by. `keep_zero_variance`:
    keep groups whose rewards are all alike (their advantages are 0). `mixed_versions`: accept a group that several
    policy versions drew.
    """

    name: ClassVar[str] = "grpo"
    clip_low: float = Field(default=0.2, ge=0, lt=1)
    clip_high: float = Field(default=0.28, ge=0)
    ratio: Level = "token"
    normalise: Normalise = "token"
    constant: int | None = Field(default=None, gt=0)
    baseline: Baseline = "mean_std"
    keep_zero_variance: bool = False
    mixed_versions: bool = False
    kl: float = Field(default=0.0, ge=0)
    kl_estimator: Literal["k1", "k2", "k3"] = "k3"
    kl_correction: bool = True
    truncate: float | None = Field(default=None, gt=0)
    distillation: OPD | None = None
    distillation_weight: float = Field(default=1.0, ge=0)

    @model_validator(mode="after")
    def _check(self) -> GRPO:
        constant_given(self.normalise, self.constant)
        return self

    @property
    def needs(self) -> frozenset[Need]:
        """Logprobs of the drawn ids and scored groups; the reference and the teacher where they have a weight."""
        needs: frozenset[Need] = frozenset({"logprobs", "group"})
        if self.kl:
            needs = needs | frozenset[Need]({"reference"})
        if self.distillation is not None:
            needs = needs | self.distillation.needs
        return needs

    def score(self, group: Sequence[Sample]) -> list[Sample] | Dropped:
        """Advantages of one group; see `advantages.score`.

        Raises:
            GroupError: a group of one, of several tasks or versions, without logprobs, or without rewards.
        """
        return score(
            group,
            self.baseline,
            keep_zero_variance=self.keep_zero_variance,
            mixed_versions=self.mixed_versions,
        )

    def loss(self, batch: Batch) -> Loss:
        """The clipped objective, the pull to the reference and the teacher's term.

        Raises:
            BatchError: the batch lacks what the parameters ask for, or nothing in the step carries loss.
        """
        batch.require(self.name, self.needs)
        logprobs, drawn = batch.at_loss(batch.logprobs), batch.read("sampled_logprobs", self.name)
        old = drawn
        if self.truncate is not None:
            old = logprobs.detach() if batch.old_logprobs is None else batch.read("old_logprobs", self.name)
        ratio = importance_ratio(logprobs, old, batch, self.ratio)
        advantages = batch.read("advantages", self.name)
        difference = logprobs - batch.read("reference_logprobs", self.name) if self.kl else None
        if difference is not None and self.kl_estimator == "k1":
            advantages = advantages - self.kl * difference.detach()
        policy = surrogate(ratio, advantages, self.clip_low, self.clip_high)
        metrics = self._watch(batch, ratio, advantages, logprobs - drawn)
        if self.truncate is not None:
            weight = truncated(old, drawn, self.truncate)
            policy = policy * weight
            metrics["truncated"] = share((weight >= self.truncate).to(weight.dtype), batch)
        per_token = policy
        if difference is not None:
            metrics["kl"] = share(_k3(difference), batch)
            if self.kl_estimator != "k1":
                per_token = per_token + self.kl * self._pull(difference, ratio)
        whole = Loss(value=normalised(per_token, batch, self.normalise, self.constant), metrics=metrics)
        if self.distillation is not None:
            term = self.distillation.loss(batch)
            whole += Loss(
                value=self.distillation_weight * term.value,
                metrics={f"distillation/{name}": value for name, value in term.metrics.items()},
            )
        return whole

    def _pull(self, difference: Tensor, ratio: Tensor) -> Tensor:
        if self.kl_estimator == "k2":
            return difference**2 / 2 * (ratio.detach() if self.kl_correction else 1.0)
        return _k3(difference) * (ratio if self.kl_correction else 1.0)

    def _watch(self, batch: Batch, ratio: Tensor, advantages: Tensor, drift: Tensor) -> dict[str, float]:
        below = (ratio < 1 - self.clip_low) & (advantages < 0)
        above = (ratio > 1 + self.clip_high) & (advantages > 0)
        return {
            "ratio": share(ratio, batch),
            "clipped_low": share(below.to(ratio.dtype), batch),
            "clipped_high": share(above.to(ratio.dtype), batch),
            "advantage_size": share(advantages.abs(), batch),
            "drift": share(_k3(drift), batch),
        }


def _k3(difference: Tensor) -> Tensor:
    return (-difference).exp() + difference - 1

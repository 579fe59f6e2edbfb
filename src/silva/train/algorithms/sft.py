"""Supervised fine-tuning: raise the log-probability of what was drawn and kept.

The negative log-likelihood of the positions with loss. What the mask leaves out, a turn that supervision masked or all
that the environment said, is context and nothing more (masking bad actions before training is APOLLO's). How tokens
become one number: `loss`.

Instruction tuning in this form: Finetuned Language Models Are Zero-Shot Learners, 2021, arXiv 2109.01652.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pydantic import Field, model_validator
from pydantic.dataclasses import dataclass

from silva.train.algorithms.loss import Loss, Normalise, normalised, share
from silva.train.algorithms.need import Need
from silva.train.algorithms.parameters import STRICT, constant_given

if TYPE_CHECKING:
    from silva.train.algorithms.batch import Batch


@dataclass(frozen=True, kw_only=True, config=STRICT)
class SFT:
    """`constant` is the number of tokens that `normalise: constant` divides a sequence by."""

    name: ClassVar[str] = "sft"
    normalise: Normalise = "token"
    constant: int | None = Field(default=None, gt=0)

    @model_validator(mode="after")
    def _check(self) -> SFT:
        constant_given(self.normalise, self.constant)
        return self

    @property
    def needs(self) -> frozenset[Need]:
        """Nothing but the samples."""
        return frozenset()

    def loss(self, batch: Batch) -> Loss:
        """The weighted negative log-likelihood.

        Raises:
            BatchError: nothing in the step carries loss.
        """
        negative = -batch.at_loss(batch.logprobs)
        return Loss(
            value=normalised(negative, batch, self.normalise, self.constant),
            metrics={"nll": share(negative, batch), "probability": share((-negative).exp(), batch)},
        )

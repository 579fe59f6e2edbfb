"""What a trainer asks of an engine, in the shape the field's own interfaces have (Tinker's, SkyRL's)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from silva.train.algorithms import Algorithm
    from silva.train.sample import Floats, Sample


@dataclass(frozen=True, kw_only=True, slots=True)
class StepResult:
    """What one `forward_backward` found: the step's `loss` and the algorithm's `metrics`; `samples` it was given,
    `tokens` it read, `loss_tokens` of them with loss, `seconds` it took."""

    loss: float
    metrics: dict[str, float] = field(default_factory=dict[str, float])
    samples: int = 0
    tokens: int = 0
    loss_tokens: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Update:
    """What one `optim_step` did. `gradient_norm` is that before clipping; where it is no finite number the weights were
    left as they were and `applied` is False."""

    learning_rate: float
    gradient_norm: float
    applied: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Drawn:
    """One continuation: its ids, their log-probabilities, and why it ended (`stop` or `length`)."""

    ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    finish: str


class Engine(Protocol):
    """Weights that can be trained. One thread at a time may use it."""

    step: int
    """Updates applied so far."""

    def forward_backward(self, samples: Sequence[Sample], algorithm: Algorithm) -> StepResult:
        """Add the gradient of the algorithm's loss over these samples to what is there since the last `optim_step`.

        The loss is normalised over all samples of the call, however they are cut into micro-batches. An algorithm that
        needs pairs is given chosen, rejected, chosen, rejected, …

        Raises:
            SampleError: a sample the weights cannot read: too long, ids of another tokenizer, images.
            BatchError: the algorithm lacks something.
        """
        ...

    def evaluate(self, samples: Sequence[Sample], algorithm: Algorithm) -> StepResult:
        """The loss and metrics of these samples, without a gradient.

        Raises:
            SampleError, BatchError: as `forward_backward`.
        """
        ...

    def optim_step(self, learning_rate: float) -> Update:
        """Change the weights along the gradient and let go of it."""
        ...

    def sample(
        self,
        prompts: Sequence[Sequence[int]],
        *,
        most_tokens: int,
        temperature: float = 1.0,
        seed: int = 0,
        ends: frozenset[int] | None = None,
    ) -> list[Drawn]:
        """Continue each prompt (ids, at least one) with the present weights.

        Args:
            prompts: ids to continue.
            most_tokens: bounds each continuation.
            temperature: 0 takes the likeliest.
            seed: with the prompt's number it decides what is drawn.
            ends: ids that end a continuation; None for the model's own end mark.
        """
        ...

    def logprobs(self, samples: Sequence[Sample]) -> list[Floats]:
        """The log-probability of each sample's positions with loss under the present weights, ascending.

        Raises:
            SampleError: as `forward_backward`.
        """
        ...

    def save_weights_for_sampler(self, folder: Path) -> Path:
        """Write what a server loads: an adapter in PEFT's format, or all weights. `folder` must not be there.

        Raises:
            StoreError: the disk refused; nothing of it is left.
        """
        ...

    def save_state(self, folder: Path) -> None:
        """Write into an empty folder all that going on exactly needs."""
        ...

    def load_state(self, folder: Path) -> None:
        """Go on where `save_state` was called.

        Raises:
            UsageError: it is the state of another model or setup.
        """
        ...

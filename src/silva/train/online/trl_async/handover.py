"""TRL's weight transfer as a publication: after each step the new weights go to who serves them.

    init, pause ─▶ send_weights: every tensor looked at ─▶ source: publish, commit ─▶ resume

Nothing is paused here: a publisher switches without a request failing, or pauses its gateway itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from torch import Tensor, isfinite


class Diverged(Exception):
    """The weights or the loss are no numbers to go on with; the message says which."""


class Handover:
    """See the module; TRL's `WeightTransferProtocol`. `follow` binds it before training."""

    def __init__(self) -> None:
        self.sent = 0
        self._hand_over: Callable[[], None] = lambda: None

    def follow(self, hand_over: Callable[[], None]) -> None:
        """Call this with the weights in place, after each step and once before the first."""
        self._hand_over = hand_over

    def init_weight_transfer(self) -> None:
        """See TRL's protocol."""

    def pause(self) -> None:
        """See TRL's protocol."""

    def send_weights(self, iterator: Iterator[tuple[str, Tensor]]) -> None:
        """See TRL's protocol. An adapter is merged into what is streamed; what is published are its own tensors.

        Raises:
            Diverged: a tensor holds values that are no finite numbers; nothing was published.
        """
        for name, tensor in iterator:
            if not bool(isfinite(tensor).all()):
                raise Diverged(f"{name} holds values that are no finite numbers")
        self._hand_over()
        self.sent += 1

    def resume(self) -> None:
        """See TRL's protocol."""

    def destroy(self) -> None:
        """See TRL's protocol."""

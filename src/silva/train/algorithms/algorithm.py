"""What every algorithm is: a name, what its loss needs to be given, and the loss."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Protocol

from silva.train.algorithms.need import Need

if TYPE_CHECKING:
    from silva.train.algorithms.batch import Batch
    from silva.train.algorithms.loss import Loss


class Algorithm(Protocol):
    """A frozen dataclass of an algorithm's parameters. Those with groups also have
    `score(group) -> list[Sample] | Dropped` (see `advantages`)."""

    name: ClassVar[str]

    @property
    def needs(self) -> frozenset[Need]:
        """What a batch must hold."""
        ...

    def loss(self, batch: Batch) -> Loss:
        """This batch's part of the step's loss.

        Raises:
            BatchError: the batch lacks something, or nothing in the step carries loss.
        """
        ...

"""The processes of one run as each of them sees them: its place, and what they can tell each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from silva.errors import Exit, SilvaError

if TYPE_CHECKING:
    from torch import Tensor


class LostTouch(SilvaError):
    """Another process of the run is gone or does not answer. `waited`: it may still be there, but time is up."""

    code = Exit.INCOMPLETE

    def __init__(self, message: str, waited: bool = False) -> None:
        super().__init__(message)
        self.waited = waited


class Group(Protocol):
    """Every method is called by all processes in the same order, else they wait for each other.

    Raises:
        LostTouch: another process is gone, or did not answer in time.
    """

    rank: int
    """This process's number, from 0."""
    size: int
    """How many there are."""

    @property
    def leads(self) -> bool:
        """Whether this is the one that writes."""
        ...

    def told(self, value: Any) -> list[Any]:
        """What each process says here, by rank; small values."""
        ...

    def agreed(self, asked: bool) -> bool:
        """Whether any process asks."""
        ...

    def sum_up(self, tensors: Sequence[Tensor]) -> None:
        """Put into each tensor its sum over all processes; float32, on the process's device."""
        ...


class Alone:
    """One process: it agrees with itself."""

    rank, size = 0, 1

    @property
    def leads(self) -> bool:
        """See `Group`."""
        return True

    def told(self, value: Any) -> list[Any]:
        """See `Group`."""
        return [value]

    def agreed(self, asked: bool) -> bool:
        """See `Group`."""
        return asked

    def sum_up(self, tensors: Sequence[Tensor]) -> None:
        """See `Group`."""


ALONE = Alone()

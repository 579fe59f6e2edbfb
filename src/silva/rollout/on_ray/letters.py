"""What driver and worker say to each other. All of it is plain data; records of the tree travel as `tree.encode` wrote
them, so that the driver puts them into its journal as they came."""

from __future__ import annotations

from silva.errors import Exit, MissingError, SilvaError, StoreError, UnreachableError, UsageError
from silva.tree import Failure, Node, Record

_KINDS: dict[int, type[SilvaError]] = {
    Exit.USAGE: UsageError,
    Exit.MISSING: MissingError,
    Exit.UNREACHABLE: UnreachableError,
    Exit.STORE: StoreError,
}


class Refusal(Record, frozen=True, kw_only=True):
    """An error that a user can mend, as data: the exit code and the line."""

    code: int
    text: str

    @classmethod
    def of(cls, error: SilvaError, where: str = "") -> Refusal:
        """The error, with where it happened before it."""
        return cls(code=int(error.code), text=f"{where}{error}")

    def error(self) -> SilvaError:
        """The error again."""
        kind = _KINDS.get(self.code)
        return SilvaError(self.text, Exit(self.code)) if kind is None else kind(self.text)


class Ready(Record, frozen=True, kw_only=True):
    """A worker stands. `capacity`: episodes of each environment it takes at once."""

    version: str
    address: str
    capacity: dict[str, int]


class Assignment(Record, frozen=True, kw_only=True):
    """An episode to play. `flight` numbers it; `slot` is a `Slot`, `walk` the turns that are kept already."""

    flight: int
    slot: Record
    walk: tuple[Node, ...]
    spent: Failure | None


class Records(Record, frozen=True, kw_only=True):
    """Records of an episode to be kept: nodes with their ids, and at its end the trajectory. All encoded."""

    number: int
    flight: int
    nodes: tuple[tuple[str, bytes], ...]
    trajectory: bytes = b""


class Blob(Record, frozen=True, kw_only=True):
    """Bytes to be kept."""

    number: int
    data: bytes
    media_type: str


class Fault(Record, frozen=True, kw_only=True):
    """An episode broke in a way that ends the run: what a user can mend, or else a traceback."""

    flight: int
    refusal: Refusal | None
    traceback: str = ""


Letter = Records | Blob | Fault

"""What every API's replies are put together by, whole or from the events of a stream.

an event ─▶ absorb ─▶ what it adds to read, a Delta      the last one ─▶ finished, ended ─┐
a whole reply ─▶ whole ─────────────────────────────────────────────────────────────────────┴▶ finish ─▶ Completion
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TypeVar

import msgspec

from silva.models.carried import Reader
from silva.models.endpoint import Endpoint
from silva.models.forgiving import forgiven
from silva.models.model import Completion, Delta

Value = TypeVar("Value")


class Pieces(ABC):
    """What came of one reply so far. `ended` once a stream said so itself; `last_event` is its latest."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._aside: list[str] = []
        self.last_event = b""
        self.ended = False

    def _taken(self, read: Reader[Value], data: bytes) -> Value:
        """What the data says; the names of what had to be set aside for it are kept."""
        try:
            return read(data)
        except msgspec.DecodeError:
            value, aside = forgiven(read, data)
        self._aside += [name for name in aside if name not in self._aside]
        return value

    @property
    @abstractmethod
    def finished(self) -> bool:
        """Whether the reply is whole."""

    @abstractmethod
    def absorb(self, event: bytes) -> Delta | None:
        """Take in one event and return what it adds to read, if anything.

        Raises:
            Reported: the server put an error into the stream.
            WireError: it does not go with what came before.
            msgspec.DecodeError: it is not one of this API.
        """

    @abstractmethod
    def whole(self, body: bytes) -> None:
        """Take in a reply that comes in one piece.

        Raises:
            Reported: the server put an error into it.
            WireError: something of it is missing.
            msgspec.DecodeError: it is not JSON, or a field has the wrong type.
        """

    @abstractmethod
    def finish(self, seconds: float, attempts: int, waited: float) -> Completion:
        """The whole reply.

        Args:
            seconds: wall time of the attempt that succeeded.
            attempts: how many were made.
            waited: seconds spent on this call in all, recorded as model time.

        Raises:
            Reported: it failed.
            WireError: a tool call has no name, or what it says does not go together.
        """

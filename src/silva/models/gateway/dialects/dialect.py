"""What a dialect is, and the one request all of them decode to."""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from silva.models.model import Completion, Delta, Sampling
from silva.tree import Json, Message, Record, Tool


class Asked(Record, frozen=True, kw_only=True):
    """One completion a client asks for, whichever dialect it wrote.

    `images` maps content hash to (media type, bytes) of the pictures sent inline. `previous` names an earlier
    response this one continues (Responses API; "" for none): the gateway puts that conversation before `messages`.
    `wants_ids`, `wants_logprobs`, `wants_usage`: what the reply must show besides the message. `echo` is what the
    dialect needs again to write the reply (fields the API repeats). `sampling.extra` holds fields of the body that
    Silva passes on unread; `left_out` names those that no backend of another API could be told. `own` are the fields
    as this API says them, for a backend that speaks it; `native` the places of what only such a one can be told, each
    with the words it is refused with elsewhere.
    """

    model: str
    messages: tuple[Message, ...]
    tools: tuple[Tool, ...] = ()
    sampling: Sampling = Sampling()
    stream: bool = False
    previous: str = ""
    user: str = ""
    wants_ids: bool = False
    wants_logprobs: bool = False
    wants_usage: bool = False
    images: dict[str, tuple[str, bytes]] = msgspec.field(default_factory=dict[str, tuple[str, bytes]])
    echo: Json = msgspec.field(default_factory=dict[str, Any])
    left_out: tuple[str, ...] = ()
    own: Json = msgspec.field(default_factory=dict[str, Any])
    native: tuple[tuple[str, str], ...] = ()


class Malformed(ValueError):
    """A body that is not what the dialect asks for. `field` is its place (`messages[3].content`), "" for the whole."""

    def __init__(self, message: str, field: str = "") -> None:
        super().__init__(message)
        self.field = field


class Stamp(Record, frozen=True, kw_only=True):
    """What a reply carries that the model did not say: its id (without the dialect's prefix), Unix seconds, and the
    model's name as the client asked for it."""

    id: str
    created: int
    model: str


class Events(Protocol):
    """Writes one streamed reply; every method gives framed server-sent events, ready to send."""

    def begin(self) -> bytes:
        """What comes before the first piece (may be empty)."""
        ...

    def delta(self, delta: Delta) -> bytes:
        """A piece of text or thinking."""
        ...

    def end(self, completion: Completion) -> bytes:
        """Tool calls, finish reason, ids, usage, and the end mark. Text already given by `delta` is not repeated; where
        the completion holds more text than was given, the rest is."""
        ...

    def error(self, status: int, kind: str, message: str) -> bytes:
        """The stream breaks off with this error, in the way this API tells errors mid-stream."""
        ...


class Dialect(Protocol):
    """One API."""

    name: str

    def decode(self, body: bytes) -> Asked:
        """Read a request.

        Raises:
            Malformed: with the field and what is wrong with it.
        """
        ...

    def encode(self, asked: Asked, completion: Completion, stamp: Stamp) -> bytes:
        """The whole reply as JSON."""
        ...

    def events(self, asked: Asked, stamp: Stamp) -> Events:
        """A writer for the streamed reply."""
        ...

    def error(self, status: int, kind: str, message: str, field: str = "") -> bytes:
        """An error body. `kind` is one of: malformed, auth, forbidden, not_found, too_large, rate_limit, overloaded,
        context_length, budget, timeout, upstream, store."""
        ...

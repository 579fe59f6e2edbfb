"""What backends of token ids share: a reply is gathered, whole or piece by piece, and judged once it is all there.

draw ─▶ body ─▶ Caller ─▶ Gathering.take … ─▶ Gathering.sampled
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from itertools import chain
from typing import Protocol, TypeVar, Unpack

from yarl import URL

from silva.models.calling import Caller, CallOptions, Timing
from silva.models.endpoint import Endpoint
from silva.models.exact.backend import DisagreementError, Draw, Piece, Sampled
from silva.models.failure import UNREADABLE
from silva.models.sizes import MOST_STREAM
from silva.models.stream import DONE

Value = TypeVar("Value")


class Gathering(Protocol):
    """What one reply has said so far, whole or in pieces."""

    def take(self, data: bytes) -> Piece | None:
        """Take in a reply, or a piece of one; what ids it adds."""
        ...

    def sampled(self, draw: Draw, timing: Timing) -> Sampled:
        """The whole reply."""
        ...


class _Heard:
    """A streamed reply, which says itself when it has ended."""

    def __init__(self, gathered: Gathering) -> None:
        self.gathered = gathered
        self.ended = False
        self.last_event = b""

    @property
    def finished(self) -> bool:
        """Whether the stream said that it ended."""
        return self.ended


class GatheringBackend(Caller):
    """A `NativeBackend` whose whole replies and whose pieces are read alike. The arguments are as in `Caller`; the
    endpoint's url may end in `/v1` or not."""

    path: str

    most_streamed: float = MOST_STREAM
    """Bytes of a stream."""

    def __init__(self, endpoint: Endpoint, **options: Unpack[CallOptions]) -> None:
        super().__init__(endpoint, **options)
        self.name = endpoint.model
        self._url = URL(self.endpoint.url.removesuffix("/v1") + self.path)

    async def sample(self, draw: Draw) -> Sampled:
        """Draw a reply; see `NativeBackend`."""
        timing = Timing()

        def read(data: bytes) -> Sampled:
            gathered = self._gathering()
            gathered.take(data)
            return gathered.sampled(draw, timing)

        return await self.ask(
            self._url,
            self._body(draw, False),
            self._headers_of(draw.session),
            lambda data: self._understood(read, data),
            deadline=draw.deadline,
            timing=timing,
        )

    async def stream(self, draw: Draw) -> AsyncIterator[Piece | Sampled]:
        """Draw it piece by piece; see `NativeBackend`."""
        timing = Timing()
        gathered = self._gathering()

        def begin() -> _Heard:
            nonlocal gathered
            gathered = self._gathering()
            return _Heard(gathered)

        heard = self.listen(
            self._url,
            self._body(draw, True),
            self._headers_of(draw.session),
            begin,
            deadline=draw.deadline,
            timing=timing,
            most=self.most_streamed,
        )
        async with aclosing(heard):  # pyright: ignore[reportArgumentType]
            async for pieces in heard:
                yield Piece(ids=tuple(chain.from_iterable(piece.ids for piece in pieces)))
        yield self._understood(lambda _: gathered.sampled(draw, timing), b"")

    def _absorbed(self, heard: _Heard, event: bytes) -> Piece | None:
        if event == DONE:
            heard.ended = True
            return None
        return self._understood(heard.gathered.take, event)

    def _understood(self, read: Callable[[bytes], Value], data: bytes) -> Value:
        """What `read` makes of bytes.

        Raises:
            ModelError: it cannot, or what it reads does not agree.
        """
        try:
            return read(data)
        except DisagreementError as fault:
            raise self.failures.make("garbage", str(fault), "what it says cannot be trained on") from fault
        except UNREADABLE as fault:
            raise self.failures.garbage(f"the reply is not understood: {fault}", data) from fault

    def _gathering(self) -> Gathering:
        raise NotImplementedError

    def _body(self, draw: Draw, stream: bool) -> bytes:
        raise NotImplementedError

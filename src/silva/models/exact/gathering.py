"""What backends of token ids share: a reply is gathered, whole or piece by piece, and judged once it is all there.

draw ─▶ body ─▶ Transport ─▶ Gathering.take … ─▶ Gathering.sampled
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from itertools import chain
from random import Random
from typing import Protocol

from silva.models.endpoint import Endpoint
from silva.models.exact.backend import Draw, Piece, Sampled
from silva.models.exact.transport import Timing, Transport
from silva.models.retry import Retry
from silva.models.sizes import MOST_STREAM


class Gathering(Protocol):
    """What one reply has said so far, whole or in pieces."""

    def take(self, data: bytes) -> Piece | None:
        """Take in a reply, or a piece of one; what ids it adds."""
        ...

    def sampled(self, draw: Draw, timing: Timing) -> Sampled:
        """The whole reply."""
        ...


class GatheringBackend:
    """A `NativeBackend` whose whole replies and whose pieces are read alike. The arguments are as in `Transport`."""

    path: str

    most_streamed: float = MOST_STREAM
    """Bytes of a stream."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        api_key: str | None = None,
        retry: Retry | None = None,
        random: Random | None = None,
    ) -> None:
        self.name = endpoint.model
        self._transport = Transport(endpoint, api_key=api_key, retry=retry, random=random)

    async def close(self) -> None:
        """Close the connections."""
        await self._transport.close()

    async def sample(self, draw: Draw) -> Sampled:
        """Draw a reply; see `NativeBackend`."""
        timing = Timing()

        def read(data: bytes) -> Sampled:
            gathered = self._gathering()
            gathered.take(data)
            return gathered.sampled(draw, timing)

        return await self._transport.post(
            self.path, self._body(draw, False), read, deadline=draw.deadline, session=draw.session, timing=timing
        )

    async def stream(self, draw: Draw) -> AsyncIterator[Piece | Sampled]:
        """Draw it piece by piece; see `NativeBackend`."""
        timing = Timing()
        gathered = self._gathering()

        def take() -> Callable[[bytes], Piece | None]:
            nonlocal gathered
            gathered = self._gathering()
            return gathered.take

        async for pieces in self._transport.events(
            self.path,
            self._body(draw, True),
            take,
            deadline=draw.deadline,
            session=draw.session,
            timing=timing,
            most=self.most_streamed,
        ):
            yield Piece(ids=tuple(chain.from_iterable(piece.ids for piece in pieces)))
        yield self._transport.read(lambda _: gathered.sampled(draw, timing), b"")

    def _gathering(self) -> Gathering:
        raise NotImplementedError

    def _body(self, draw: Draw, stream: bool) -> bytes:
        raise NotImplementedError

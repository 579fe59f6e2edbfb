"""What backends of token ids share: a reply is gathered, whole or piece by piece, and judged once it is all there.

draw ─▶ body ─▶ Caller ─▶ Gathering.take … ─▶ Gathering.sampled
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from itertools import chain
from typing import Any, TypeVar, Unpack

from yarl import URL

from silva.models.calling import Caller, CallOptions, Timing
from silva.models.endpoint import Endpoint
from silva.models.exact.backend import (
    DisagreementError,
    Draw,
    Piece,
    Sampled,
    check_counts,
    check_drawn,
    check_prompt,
)
from silva.models.failure import UNREADABLE, Failures
from silva.models.sizes import MOST_STREAM
from silva.models.stream import DONE

Value = TypeVar("Value")


class Gathering(ABC):
    """What one reply has said so far, whole or in pieces: its ids, why it ended, how many tokens it counts."""

    def __init__(self, failures: Failures) -> None:
        self._failures = failures
        self._ids: list[int] = []
        self._prompt: list[int] | None = None
        self._finish = ""
        self._model = self._version = ""
        self._counted: tuple[int | None, int | None] = (None, None)
        self._cached = 0

    @abstractmethod
    def take(self, data: bytes) -> Piece | None:
        """Take in a reply, or a piece of one; what ids it adds.

        Raises:
            ModelError: it is an error.
            DisagreementError: it does not agree with what came before.
        """

    @abstractmethod
    def _logprobs(self) -> list[float | None] | None:
        """Those of the sampled ids, as they were told."""

    def sampled(self, draw: Draw, timing: Timing) -> Sampled:
        """The whole reply.

        Raises:
            DisagreementError: what was said does not agree.
            ModelError: the server gave up on it.
        """
        if self._finish not in ("stop", "length"):
            what = f"the reply ended with {self._finish!r}" if self._finish else "the reply has no end"
            raise self._failures.make("server", what, "look at the server's log", transient=True)
        check_prompt(self._prompt, draw.prompt_ids, len(draw.images))
        prompt, completion = self._counted
        # an image's placeholder is counted as all the tokens it becomes
        check_counts(None if draw.images else prompt, completion, len(draw.prompt_ids), len(self._ids))
        wanted = draw.sampling.logprobs
        return Sampled(
            ids=tuple(self._ids),
            logprobs=check_drawn(self._ids, self._logprobs() if wanted else None, wanted),
            finish_reason=self._finish,
            policy_version=self._version,
            cached_tokens=self._cached,
            seconds=timing.seconds,
            waited=timing.waited,
            attempts=timing.attempts,
            model=self._model,
        )


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

    def _absorbed(self, heard: _Heard, found: list[bytes], values: list[Any]) -> None:
        for event in found:
            if event == DONE:
                heard.ended = True
                return
            if (piece := self._understood(heard.gathered.take, event)) is not None:
                values.append(piece)

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

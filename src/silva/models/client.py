"""A client for any OpenAI-compatible endpoint.

    Request ─▶ Bodies.write ─▶ POST ─▶ Assembly ─▶ Completion
                               │  what went wrong ─▶ Failures ─▶ Retry: wait and again, or raise ModelError
                               └─ the request's deadline stands over all of it

One keep-alive pool without a limit: how many calls are in flight is the scheduler's decision, not the client's.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from types import TracebackType
from typing import Any, Unpack

import aiohttp
import msgspec
from yarl import URL

from silva.models.body import Bodies, Written
from silva.models.calling import Caller, CallOptions, Timing
from silva.models.endpoint import Endpoint
from silva.models.failure import UNREADABLE
from silva.models.held import Held
from silva.models.model import Completion, Delta, Request
from silva.models.pieces import Pieces
from silva.models.scores import wanted, with_entries
from silva.models.sizes import whole
from silva.models.stream import Assembly, joined
from silva.models.wire import Reported, WireError


class Client(Caller):
    """A model behind an endpoint. Use it within one event loop; `close` it, or use it as an async context manager.

    Args:
        endpoint: where and which model.
        held: counts, together with others, what is kept of conversations.
        options: as in `CallOptions`.

    Raises:
        UsageError: the endpoint's url cannot be used.
    """

    route = "/chat/completions"
    """What is appended to the endpoint's url."""

    def __init__(self, endpoint: Endpoint, *, held: Held | None = None, **options: Unpack[CallOptions]) -> None:
        super().__init__(endpoint, **options)
        self.name = endpoint.model
        self._url = URL(self.endpoint.url + self.route)
        self._bodies = self._writer(held)

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await super().close()
        self._bodies.clear()

    def forget(self, session: str) -> None:
        """Let go of what is kept of a session that has ended."""
        self._bodies.forget(session)

    async def complete(self, request: Request) -> Completion:
        """Complete the conversation.

        Raises:
            ModelError: no reply could be had; see its kind.
        """
        body, timing = self._body(request, stream=False), Timing()

        def read(data: bytes) -> Completion:
            completion = self._decoded(data, timing)
            return with_entries(completion, [data]) if wanted(request) else completion

        return await self.ask(
            self._url,
            body,
            self._asking(request),
            read,
            deadline=request.deadline,
            timing=timing,
        )

    async def stream(self, request: Request) -> AsyncIterator[Delta]:
        """Complete it piece by piece. Tries again only while nothing has been handed on.

        Raises:
            ModelError: no reply could be had, or it broke off half-way.
        """
        body, timing = self._body(request, stream=True), Timing()
        assembly = self._assembly()
        scored: list[bytes] = []

        def begin() -> Pieces:
            nonlocal assembly
            scored.clear()
            assembly = self._assembly()
            return assembly

        def overheard(found: list[bytes]) -> None:
            scored.extend(event for event in found if b'"logprobs"' in event)

        heard = self.listen(
            self._url,
            body,
            self._asking(request),
            begin,
            deadline=request.deadline,
            timing=timing,
            overheard=overheard if wanted(request) else None,
        )
        async with aclosing(heard):  # pyright: ignore[reportArgumentType]
            async for pieces in heard:
                for delta in joined(pieces):
                    yield delta
        completion = self._finished(assembly, timing)
        completion = with_entries(completion, scored) if scored else completion
        yield Delta(tool_calls=completion.message.tool_calls, completion=completion)

    async def list_models(self, deadline: float = 10.0) -> list[str]:
        """Names the endpoint offers, by its `/models`.

        Raises:
            ModelError: it cannot be asked.
        """
        try:
            async with (
                asyncio.timeout(deadline),
                self._session().get(
                    URL(self.endpoint.url + "/models"), headers=self._headers, allow_redirects=False
                ) as response,
            ):
                data = await whole(response.content)
        except (aiohttp.ClientError, OSError) as fault:
            raise self._network(fault, deadline) from fault
        if response.status != 200:
            raise self.failures.of_status(response.status, response.headers, data)
        try:
            return [entry.id for entry in msgspec.json.decode(data, type=_Models).data]
        except UNREADABLE as fault:
            raise self.failures.garbage("its list of models is not understood", data) from fault

    def _asking(self, request: Request) -> dict[str, str]:
        """The headers of a call."""
        return self._headers_of(request.session)

    def _writer(self, held: Held | None) -> Written:
        """What writes the bodies of calls."""
        return Bodies(self.endpoint, held)

    def _assembly(self) -> Pieces:
        """What puts a reply together."""
        return Assembly(self.endpoint)

    def _body(self, request: Request, *, stream: bool) -> bytes:
        try:
            return self._bodies.write(request, stream=stream)
        except (WireError, TypeError, UnicodeEncodeError) as fault:
            raise self.failures.make("refused", f"the request cannot be written: {fault}") from fault

    def _decoded(self, data: bytes, timing: Timing) -> Completion:
        heard = self._assembly()
        try:
            heard.whole(data)
            return heard.finish(timing.seconds, timing.attempts, timing.waited)
        except Reported as fault:
            raise self.failures.reported(fault.value) from fault
        except WireError as fault:
            raise self.failures.garbage(str(fault), data) from fault
        except msgspec.ValidationError as fault:
            raise self.failures.garbage(f"the reply has the wrong shape: {fault}", data) from fault
        except UNREADABLE as fault:
            cut = "truncated" in str(fault) and data.lstrip().startswith(b"{")
            raise self.failures.garbage(
                "the reply is cut off" if cut else "the reply is not JSON", data, transient=cut
            ) from fault

    def _absorbed(self, heard: Pieces, found: list[bytes], values: list[Any]) -> None:
        try:
            for event in found:
                if (value := heard.absorb(event)) is not None:
                    values.append(value)
                if heard.ended:
                    break
        except Reported as fault:
            raise self.failures.reported(fault.value) from fault
        except (*UNREADABLE, WireError) as fault:
            raise self.failures.garbage("a piece of the stream is not understood", heard.last_event) from fault

    def _finished(self, assembly: Pieces, timing: Timing) -> Completion:
        try:
            return assembly.finish(timing.seconds, timing.attempts, timing.waited)
        except (WireError, UnicodeError, RecursionError) as fault:
            raise self.failures.garbage(str(fault), assembly.last_event) from fault


class _ModelName(msgspec.Struct):
    id: str


class _Models(msgspec.Struct):
    data: list[_ModelName]

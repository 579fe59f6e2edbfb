"""A client for any OpenAI-compatible endpoint.

    Request ─▶ Bodies.write ─▶ POST ─▶ wire.decode_reply ─▶ Completion
                               │  what went wrong ─▶ Failures ─▶ Retry: wait and again, or raise ModelError
                               └─ the request's deadline stands over all of it

One keep-alive pool without a limit: how many calls are in flight is the scheduler's decision, not the client's.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable
from random import Random
from types import TracebackType

import aiohttp
import msgspec
from yarl import URL

from silva.models.body import Bodies
from silva.models.calling import Caller, proxy_of
from silva.models.endpoint import Endpoint
from silva.models.errors import ModelError
from silva.models.failure import UNREADABLE
from silva.models.held import Held
from silva.models.model import Completion, Delta, Request
from silva.models.plain import Plain, Response
from silva.models.retry import Retry
from silva.models.scores import wanted, with_entries
from silva.models.sizes import whole
from silva.models.stream import Assembly, events, joined, taken
from silva.models.wire import Reported, WireError, decode_reply


class Client(Caller):
    """A model behind an endpoint. Use it within one event loop; `close` it, or use it as an async context manager.

    Args:
        endpoint: where and which model.
        api_key: the key; None reads the endpoint's environment variable.
        retry: when to try again.
        random: source of the jitter, for tests.
        held: counts, together with others, what is kept of conversations.

    Raises:
        UsageError: the endpoint's url cannot be used.
    """

    route = "/chat/completions"
    """What is appended to the endpoint's url."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        api_key: str | None = None,
        retry: Retry | None = None,
        random: Random | None = None,
        held: Held | None = None,
    ) -> None:
        super().__init__(endpoint, api_key=api_key, retry=retry, random=random)
        self.name = endpoint.model
        self._url = URL(self.endpoint.url + self.route)
        self._bodies = Bodies(self.endpoint, held)
        is_plain = self._url.scheme == "http" and proxy_of(self._url) is None
        self._plain = Plain(self._url) if is_plain else None

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
        if self._plain is not None:
            self._plain.close()

    def forget(self, session: str) -> None:
        """Let go of what is kept of a session that has ended."""
        self._bodies.forget(session)

    async def complete(self, request: Request) -> Completion:
        """Complete the conversation.

        Raises:
            ModelError: no reply could be had; see its kind.
        """
        body = self._body(request, stream=False)
        headers = self._asking(request)
        started = time.perf_counter()
        tried = 0
        while True:
            tried += 1
            began = time.perf_counter()
            bound = self._bound(request.deadline - (began - started))
            try:
                async with asyncio.timeout(bound):
                    response = await self._post(body, headers)
                    try:
                        data = await _whole(response)
                    finally:
                        response.close()
                if response.status != 200:
                    raise self.failures.of_status(response.status, response.headers, data)
                now = time.perf_counter()
                whole_reply = self._decoded(data, now - began, tried, now - started)
                return with_entries(whole_reply, [data]) if wanted(request) else whole_reply
            except (aiohttp.ClientError, OSError) as fault:  # TimeoutError is an OSError
                error = self._network(fault, bound)
                error.__cause__ = fault
            except ModelError as failure:
                error = failure
            await self._pause(tried, error, request.deadline, started)

    async def stream(self, request: Request) -> AsyncIterator[Delta]:
        """Complete it piece by piece. Tries again only while nothing has been handed on.

        Raises:
            ModelError: no reply could be had, or it broke off half-way.
        """
        body = self._body(request, stream=True)
        headers = self._asking(request)
        started = time.perf_counter()
        tried = 0
        while True:
            tried += 1
            began = time.perf_counter()
            bound = self._bound(request.deadline - (began - started))
            handed_on = False
            assembly = self._assembly()
            scored: list[bytes] = []
            response: aiohttp.ClientResponse | Response | None = None
            try:
                stop_at = asyncio.get_running_loop().time() + bound
                async with asyncio.timeout_at(stop_at):
                    response = await self._post(body, headers)
                    if response.status != 200:
                        raise self.failures.of_status(response.status, response.headers, await _whole(response))
                content = response if isinstance(response, Response) else response.content
                async for found in events(content, stop_at):
                    scored += [each for each in found if b'"logprobs"' in each] if wanted(request) else ()
                    pieces, broken = taken(found, lambda event, to=assembly: self._absorbed(to, event))
                    for delta in joined(pieces):
                        handed_on = True
                        yield delta
                    if broken is not None:
                        raise broken
                    if assembly.ended:
                        break
                if not assembly.finished:
                    raise self.failures.garbage("the stream broke off", assembly.last_event, transient=True)
                if isinstance(response, Response) and assembly.ended:
                    await _read_to_its_end(response)
                    response.close()
                now = time.perf_counter()
                last = self._finished(assembly, now - began, tried, now - started)
                if scored and last.completion is not None:
                    last = msgspec.structs.replace(last, completion=with_entries(last.completion, scored))
                yield last
                return
            except (aiohttp.ClientError, OSError) as fault:
                error = self._network(fault, bound)
                error.__cause__ = fault
            except ModelError as failure:
                error = failure
            finally:
                if isinstance(response, Response):
                    response.close()
                elif response is not None:
                    response.close() if not assembly.ended else response.release()
            if handed_on:
                raise error
            await self._pause(tried, error, request.deadline, started)

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

    async def _post(self, body: bytes, headers: dict[str, str]) -> aiohttp.ClientResponse | Response:
        if self._plain is not None:
            return await self._plain.post(body, headers)
        return await self._session().post(self._url, data=body, headers=headers, allow_redirects=False)

    def _asking(self, request: Request) -> dict[str, str]:
        """The headers of a call."""
        return self._headers_of(request.session)

    def _assembly(self) -> Assembly:
        """What puts the pieces of a stream together."""
        return Assembly(self.endpoint)

    def _read(self, data: bytes, seconds: float, tried: int, waited: float) -> Completion:
        """A whole reply, read."""
        return decode_reply(data, self.endpoint, seconds, tried, waited)

    def _body(self, request: Request, *, stream: bool) -> bytes:
        try:
            return self._bodies.write(request, stream=stream)
        except (WireError, TypeError, UnicodeEncodeError) as fault:
            raise self.failures.make("refused", f"the request cannot be written: {fault}") from fault

    def _decoded(self, data: bytes, seconds: float, tried: int, waited: float) -> Completion:
        try:
            return self._read(data, seconds, tried, waited)
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

    def _absorbed(self, assembly: Assembly, event: bytes) -> Delta | None:
        if assembly.ended:
            return None
        try:
            return assembly.absorb(event)
        except Reported as fault:
            raise self.failures.reported(fault.value) from fault
        except (*UNREADABLE, WireError) as fault:
            raise self.failures.garbage("a piece of the stream is not understood", event) from fault

    def _finished(self, assembly: Assembly, seconds: float, tried: int, waited: float) -> Delta:
        try:
            return assembly.finish(seconds, tried, waited)
        except (WireError, UnicodeError, RecursionError) as fault:
            raise self.failures.garbage(str(fault), assembly.last_event) from fault


def _whole(response: aiohttp.ClientResponse | Response) -> Awaitable[bytes]:
    """All of a reply, if it is of a size that is read."""
    return response.read() if isinstance(response, Response) else whole(response.content)


async def _read_to_its_end(response: Response) -> None:
    """Read what follows the end mark of a stream (its last, empty chunk), so that the connection can be used again."""
    if not response.whole:
        try:
            async with asyncio.timeout(1.0):
                while await response.readany():
                    pass
        except OSError:  # TimeoutError is one; the connection is then given up
            return


class _ModelName(msgspec.Struct):
    id: str


class _Models(msgspec.Struct):
    data: list[_ModelName]

"""What every client of a model server shares: its key and headers, the way to it, patience, and what errors mean.

    ask     body ─▶ POST ─▶ read(bytes) ─▶ value             what goes wrong ─▶ ModelError ─▶ pause: again, or raise
    listen  body ─▶ POST ─▶ events ─▶ absorb ─▶ value, …     tried again only while nothing was handed on

The request's deadline stands over all tries. Plain HTTP goes by `silva.models.plain`, TLS and proxies by aiohttp.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable
from random import Random
from typing import Any, Protocol, TypedDict, TypeVar, Unpack
from urllib.parse import quote
from urllib.request import getproxies, proxy_bypass

import aiohttp
import msgspec
from yarl import URL

from silva.models.endpoint import OPENAI_KEY, Endpoint
from silva.models.errors import ModelError
from silva.models.failure import Failures
from silva.models.plain import BrokenError, NotHttpError, Plain, Response
from silva.models.retry import Retry
from silva.models.sizes import MOST_STREAM, Readable, TooLargeError, whole
from silva.models.stream import events

SESSION_HEADER = "X-Session-ID"
"""Names the trajectory a call belongs to: routers use it for affinity, the scripted server for its rules."""

Value = TypeVar("Value")


class Timing:
    """How one call went: `attempts` made, `seconds` of the last, `waited` over all."""

    def __init__(self) -> None:
        self.attempts = 0
        self.seconds = 0.0
        self.waited = 0.0


class Heard(Protocol):
    """What a streamed reply has said so far: `finished` once it is whole, `ended` once the stream said so itself."""

    @property
    def finished(self) -> bool:
        """Whether the reply is whole."""
        ...

    ended: bool
    last_event: bytes


class CallOptions(TypedDict, total=False):
    """What a client may be told besides its endpoint."""

    api_key: str | None
    """The key; without it, that of the endpoint's environment variable."""
    retry: Retry | None
    """When to try again."""
    random: Random | None
    """Source of the jitter, for tests."""


class Caller:
    """A client of one endpoint. Use it within one event loop and close it.

    Raises:
        UsageError: the endpoint's url cannot be used.
    """

    key_variable = OPENAI_KEY
    """Where the key is read from, unless the endpoint names another variable."""

    def __init__(self, endpoint: Endpoint, **options: Unpack[CallOptions]) -> None:
        if endpoint.api_key_env == OPENAI_KEY != self.key_variable:  # the record's default: another provider's key
            endpoint = msgspec.structs.replace(endpoint, api_key_env=self.key_variable)
        self.endpoint = endpoint.checked()
        key = options.get("api_key") or endpoint.key()
        self.failures = self._failures(key)
        self._retry = options.get("retry") or Retry()
        self._random = options.get("random") or Random()
        self._headers = {"Content-Type": "application/json", **self._fixed(), **endpoint.headers}
        if key:
            self._headers |= self._signed(key)
        self._http: aiohttp.ClientSession | None = None
        self._plain: dict[URL, Plain] = {}

    def _failures(self, key: str | None) -> Failures:
        """What makes the errors of this API."""
        return Failures(self.endpoint, key)

    def _fixed(self) -> dict[str, str]:
        """Headers of this API, where the endpoint names no others."""
        return {}

    def _signed(self, key: str) -> dict[str, str]:
        """The headers that show a key."""
        return {"Authorization": f"Bearer {key}"}

    async def close(self) -> None:
        """Close the connections."""
        if self._http is not None:
            await self._http.close()
            self._http = None
        for plain in self._plain.values():
            plain.close()

    async def ask(
        self,
        url: URL,
        body: bytes,
        headers: dict[str, str],
        read: Callable[[bytes], Value],
        *,
        deadline: float,
        timing: Timing,
    ) -> Value:
        """Send a body and read the reply.

        Raises:
            ModelError: no reply could be had; see its kind.
        """
        started = time.perf_counter()
        while True:
            timing.attempts += 1
            began = time.perf_counter()
            bound = self._bound(deadline - (began - started))
            try:
                async with asyncio.timeout(bound):
                    response = await self._post(url, body, headers)
                    try:
                        data = await whole(response.content)
                    finally:
                        response.close()
                if response.status != 200:
                    raise self.failures.of_status(response.status, response.headers, data)
                timing.seconds, timing.waited = time.perf_counter() - began, time.perf_counter() - started
                return read(data)
            except (aiohttp.ClientError, OSError) as fault:  # TimeoutError is an OSError
                error = self._network(fault, bound)
                error.__cause__ = fault
            except ModelError as failure:
                error = failure
            await self._pause(timing.attempts, error, deadline, started)

    async def listen(
        self,
        url: URL,
        body: bytes,
        headers: dict[str, str],
        begin: Callable[[], Heard],
        *,
        deadline: float,
        timing: Timing,
        most: float = MOST_STREAM,
        overheard: Callable[[list[bytes]], None] | None = None,
    ) -> AsyncIterator[list[Any]]:
        """Send a body and read a stream of events: what they add, that which came together in one list. `begin` makes
        for each attempt what its events are absorbed by; `most` bounds the bytes of the stream; `overheard` is given
        the events as they came.

        Raises:
            ModelError: no reply could be had, or it broke off half-way.
        """
        started = time.perf_counter()
        while True:
            timing.attempts += 1
            began = time.perf_counter()
            bound = self._bound(deadline - (began - started))
            handed_on = False
            heard = begin()
            response: aiohttp.ClientResponse | Response | None = None
            try:
                stop_at = asyncio.get_running_loop().time() + bound
                async with asyncio.timeout_at(stop_at):
                    response = await self._post(url, body, headers)
                    if response.status != 200:
                        raise self.failures.of_status(response.status, response.headers, await whole(response.content))
                async for found in events(response.content, stop_at, most):
                    if overheard is not None:
                        overheard(found)
                    values: list[Any] = []
                    broken: ModelError | None = None
                    try:
                        self._absorbed(heard, found, values)
                    except ModelError as failure:
                        broken = failure
                    if values:
                        handed_on = True
                        yield values
                    if broken is not None:
                        raise broken
                    if heard.ended:
                        break
                if not heard.finished:
                    raise self.failures.garbage("the stream broke off", heard.last_event, transient=True)
                if heard.ended:
                    await _read_to_its_end(response.content)
                timing.seconds, timing.waited = time.perf_counter() - began, time.perf_counter() - started
                return
            except (aiohttp.ClientError, OSError) as fault:
                error = self._network(fault, bound)
                error.__cause__ = fault
            except ModelError as failure:
                error = failure
            finally:
                if response is not None:
                    response.release() if heard.ended else response.close()
            if handed_on:
                raise error
            await self._pause(timing.attempts, error, deadline, started)

    def _absorbed(self, heard: Any, found: list[bytes], values: list[Any]) -> None:
        """Take in events that came together, until one ends the stream; what they add goes to the values.

        Raises:
            ModelError: the first of them that is not understood.
        """
        raise NotImplementedError

    async def _post(self, url: URL, body: bytes, headers: dict[str, str]) -> aiohttp.ClientResponse | Response:
        plain = self._plain.get(url)
        if plain is None and url.scheme == "http" and proxy_of(url) is None:
            plain = self._plain[url] = Plain(url)
        if plain is not None:
            return await plain.post(body, headers)
        return await self._session().post(url, data=body, headers=headers, allow_redirects=False)

    def _session(self) -> aiohttp.ClientSession:
        if self._http is None:
            self._http = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=30),
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=30),
                proxy=proxy_of(URL(self.endpoint.url)),
            )
        return self._http

    def _headers_of(self, session: str) -> dict[str, str]:
        if not session:
            return self._headers
        if not (session.isascii() and session.isalnum()):  # the engine's are hexadecimal
            session = quote(session, safe="/:.@+-_~ ")
        return {**self._headers, SESSION_HEADER: session}

    def _bound(self, remaining: float) -> float:
        limit = self._retry.attempt_seconds
        return max(0.0, remaining if limit is None else min(limit, remaining))

    def _network(self, fault: aiohttp.ClientError | OSError, bound: float) -> ModelError:
        make = self.failures.make
        if isinstance(fault, aiohttp.ClientResponseError | NotHttpError):
            return make("garbage", f"the reply is not HTTP: {fault}", "is this the right port?")
        if isinstance(fault, TooLargeError):
            return make("garbage", fault.strerror or "", "is it a model that answers there?")
        if isinstance(fault, aiohttp.ClientSSLError):
            return make("unreachable", f"TLS failed: {fault}", "check the certificate, or http against https")
        if isinstance(fault, aiohttp.ClientPayloadError | aiohttp.ServerDisconnectedError | BrokenError):
            return make("unreachable", "the connection broke before the reply was whole", transient=True)
        if isinstance(fault, TimeoutError):
            return self.failures.timeout(bound)
        if isinstance(fault, aiohttp.ClientConnectorError):
            reason = fault.os_error.strerror or str(fault.os_error)
            return make("unreachable", f"cannot connect ({reason})", "is it running?", transient=True)
        if isinstance(fault, OSError) and fault.errno:
            reason = os.strerror(fault.errno) if fault.errno > 0 else fault.strerror
            return make("unreachable", f"cannot connect ({reason})", "is it running?", transient=True)
        return make("unreachable", f"the connection failed ({fault})", transient=True)

    async def _pause(self, tried: int, error: ModelError, deadline: float, started: float) -> None:
        remaining = deadline - (time.perf_counter() - started)
        wait = self._retry.wait(tried, error, remaining, self._random)
        if wait is not None:
            await asyncio.sleep(wait)
            if time.perf_counter() - started < deadline:
                return  # else the machine woke this up too late: another try would only hide why the last one failed
        if tried == 1:
            raise error
        text = f"{error} (after {tried} attempts)"
        raise ModelError(error.kind, text, transient=error.transient, retry_after=error.retry_after) from error


async def _read_to_its_end(content: Readable) -> None:
    """Read what follows the end mark of a stream (its last, empty chunk), so that the connection can be used again."""
    try:
        async with asyncio.timeout(1.0):
            while await content.readany():
                pass
    except (aiohttp.ClientError, OSError):  # TimeoutError is one; the connection is then given up
        return


def proxy_of(url: URL) -> str | None:
    """The proxy the environment names for a url, or None."""
    # aiohttp's own trust_env looks this up, and .netrc in a thread, on every call
    if url.host is None or proxy_bypass(url.host):
        return None
    return getproxies().get(url.scheme)

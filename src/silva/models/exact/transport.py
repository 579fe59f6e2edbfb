"""How a native backend is reached: JSON over HTTP, tried again while that may help, under one deadline.

body ─▶ post ─▶ read(bytes) ─▶ value          what goes wrong ─▶ Failures ─▶ Retry: again, or ModelError
     └▶ events ─▶ take(event) ─▶ value, …     tried again only while nothing was handed on
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from random import Random
from typing import TypeVar
from urllib.parse import quote
from urllib.request import getproxies, proxy_bypass

import aiohttp
import msgspec
from yarl import URL

from silva.models.client import SESSION_HEADER
from silva.models.endpoint import Endpoint
from silva.models.errors import ModelError
from silva.models.exact.backend import DisagreementError
from silva.models.failure import Failures
from silva.models.retry import Retry
from silva.models.stream import DONE, events

Value = TypeVar("Value")


class Timing:
    """How one call went: `attempts` made, `seconds` of the last, `waited` over all."""

    def __init__(self) -> None:
        self.attempts = 0
        self.seconds = 0.0
        self.waited = 0.0


class Transport:
    """One endpoint that speaks JSON. Use it within one event loop and close it.

    Args:
        endpoint: where and which model; its url may end in `/v1` or not.
        api_key: the key; None reads the endpoint's environment variable.
        retry: when to try again.
        random: source of the jitter, for tests.

    Raises:
        UsageError: the endpoint's url cannot be used.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        api_key: str | None = None,
        retry: Retry | None = None,
        random: Random | None = None,
    ) -> None:
        self.endpoint = endpoint.checked()
        key = api_key or endpoint.key()
        self.failures = Failures(self.endpoint, key)
        self._root = self.endpoint.url.removesuffix("/v1")
        self._retry = retry or Retry()
        self._random = random or Random()
        self._headers = {"Content-Type": "application/json", **endpoint.headers}
        if key:
            self._headers["Authorization"] = f"Bearer {key}"
        self._http: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Close the connections."""
        if self._http is not None:
            await self._http.close()
            self._http = None

    async def post(
        self,
        path: str,
        body: bytes,
        read: Callable[[bytes], Value],
        *,
        deadline: float,
        session: str,
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
                async with asyncio.timeout(bound), self._sending(path, body, session) as response:
                    data = await response.read()
                if response.status != 200:
                    raise self.failures.of_status(response.status, response.headers, data)
                timing.seconds, timing.waited = time.perf_counter() - began, time.perf_counter() - started
                return self.read(read, data)
            except (aiohttp.ClientError, OSError) as fault:  # TimeoutError is an OSError
                error = self._network(fault, bound)
                error.__cause__ = fault
            except ModelError as failure:
                error = failure
            await self._pause(timing.attempts, error, deadline, started)

    async def events(
        self,
        path: str,
        body: bytes,
        take: Callable[[], Callable[[bytes], Value | None]],
        *,
        deadline: float,
        session: str,
        timing: Timing,
    ) -> AsyncIterator[Value]:
        """Send a body and read a stream of events. `take` makes a reader for each attempt; it is given the events one
        by one and returns what each adds, if anything.

        Raises:
            ModelError: no reply could be had, or it broke off half-way.
        """
        started = time.perf_counter()
        while True:
            timing.attempts += 1
            began = time.perf_counter()
            bound = self._bound(deadline - (began - started))
            handed_on = ended = False
            reader = take()
            response: aiohttp.ClientResponse | None = None
            try:
                stop_at = asyncio.get_running_loop().time() + bound
                async with asyncio.timeout_at(stop_at):
                    response = await self._sending(path, body, session)
                    if response.status != 200:
                        raise self.failures.of_status(response.status, response.headers, await response.read())
                async for event in events(response.content, stop_at):
                    if event == DONE:
                        ended = True
                        break
                    value = self.read(reader, event)
                    if value is not None:
                        handed_on = True
                        yield value
                timing.seconds, timing.waited = time.perf_counter() - began, time.perf_counter() - started
                if ended:
                    return
                raise self.failures.garbage("the stream broke off", b"", transient=True)
            except (aiohttp.ClientError, OSError) as fault:
                error = self._network(fault, bound)
                error.__cause__ = fault
            except ModelError as failure:
                error = failure
            finally:
                if response is not None:
                    response.release() if ended else response.close()
            if handed_on:
                raise error
            await self._pause(timing.attempts, error, deadline, started)

    def _sending(self, path: str, body: bytes, session: str):
        if self._http is None:
            self._http = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=30),
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=30),
                proxy=_proxy(URL(self._root)),
            )
        headers = self._headers if not session else {**self._headers, SESSION_HEADER: quote(session, safe="/:.@+-_~ ")}
        return self._http.post(URL(self._root + path), data=body, headers=headers, allow_redirects=False)

    def read(self, read: Callable[[bytes], Value], data: bytes) -> Value:
        """What `read` makes of bytes.

        Raises:
            ModelError: it cannot, or what it reads does not agree.
        """
        try:
            return read(data)
        except DisagreementError as fault:
            raise self.failures.make("garbage", str(fault), "what it says cannot be trained on") from fault
        except (msgspec.DecodeError, UnicodeDecodeError) as fault:
            raise self.failures.garbage(f"the reply is not understood: {fault}", data) from fault

    def _bound(self, remaining: float) -> float:
        limit = self._retry.attempt_seconds
        return max(0.0, remaining if limit is None else min(limit, remaining))

    def _network(self, fault: aiohttp.ClientError | OSError, bound: float) -> ModelError:
        make = self.failures.make
        if isinstance(fault, aiohttp.ClientResponseError):
            return make("garbage", f"the reply is not HTTP: {fault.message}", "is this the right port?")
        if isinstance(fault, aiohttp.ClientSSLError):
            return make("unreachable", f"TLS failed: {fault}", "check the certificate, or http against https")
        if isinstance(fault, aiohttp.ClientPayloadError | aiohttp.ServerDisconnectedError):
            return make("unreachable", "the connection broke before the reply was whole", transient=True)
        if isinstance(fault, TimeoutError):
            return self.failures.timeout(bound)
        if isinstance(fault, aiohttp.ClientConnectorError):
            reason = fault.os_error.strerror or str(fault.os_error)
            return make("unreachable", f"cannot connect ({reason})", "is it running?", transient=True)
        return make("unreachable", f"the connection failed ({fault})", transient=True)

    async def _pause(self, tried: int, error: ModelError, deadline: float, started: float) -> None:
        remaining = deadline - (time.perf_counter() - started)
        wait = self._retry.wait(tried, error, remaining, self._random)
        if wait is None:
            if tried == 1:
                raise error
            text = f"{error} (after {tried} attempts)"
            raise ModelError(error.kind, text, transient=error.transient, retry_after=error.retry_after) from error
        await asyncio.sleep(wait)


def _proxy(url: URL) -> str | None:
    return None if url.host is None or proxy_bypass(url.host) else getproxies().get(url.scheme)

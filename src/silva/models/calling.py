"""What every client of a model server shares: its key and headers, the aiohttp session, patience, and what errors mean.

fault ─▶ network ─▶ ModelError ─▶ pause: wait and try again, or raise
"""

from __future__ import annotations

import asyncio
import os
import time
from random import Random
from urllib.parse import quote
from urllib.request import getproxies, proxy_bypass

import aiohttp
from yarl import URL

from silva.models.endpoint import Endpoint
from silva.models.errors import ModelError
from silva.models.failure import Failures
from silva.models.plain import BrokenError, NotHttpError
from silva.models.retry import Retry
from silva.models.sizes import TooLargeError

SESSION_HEADER = "X-Session-ID"
"""Names the trajectory a call belongs to: routers use it for affinity, the scripted server for its rules."""


class Caller:
    """A client of one endpoint. Use it within one event loop and close it.

    Args:
        endpoint: where and which model.
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


def proxy_of(url: URL) -> str | None:
    """The proxy the environment names for a url, or None."""
    # aiohttp's own trust_env looks this up, and .netrc in a thread, on every call
    if url.host is None or proxy_bypass(url.host):
        return None
    return getproxies().get(url.scheme)

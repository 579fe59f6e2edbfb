"""How a native backend is reached: JSON over HTTP, tried again while that may help, under one deadline.

body ─▶ post ─▶ read(bytes) ─▶ value          what goes wrong ─▶ Failures ─▶ Retry: again, or ModelError
     └▶ events ─▶ take(event) ─▶ value, …     tried again only while nothing was handed on
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import TypeVar

import aiohttp
from yarl import URL

from silva.models.calling import Caller
from silva.models.errors import ModelError
from silva.models.exact.backend import DisagreementError
from silva.models.failure import UNREADABLE
from silva.models.sizes import MOST_STREAM, whole
from silva.models.stream import DONE, events, taken

Value = TypeVar("Value")


class Timing:
    """How one call went: `attempts` made, `seconds` of the last, `waited` over all."""

    def __init__(self) -> None:
        self.attempts = 0
        self.seconds = 0.0
        self.waited = 0.0


class Transport(Caller):
    """One endpoint that speaks JSON; its url may end in `/v1` or not. The arguments are as in `Caller`."""

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
                    data = await whole(response.content)
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
        most: float = MOST_STREAM,
    ) -> AsyncIterator[list[Value]]:
        """Send a body and read a stream of events. `take` makes a reader for each attempt; it is given the events one
        by one and returns what each adds, if anything. What came together is given together. `most` bounds the bytes of
        the stream.

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
                        raise self.failures.of_status(response.status, response.headers, await whole(response.content))
                async for found in events(response.content, stop_at, most):
                    end = found.index(DONE) if DONE in found else len(found)
                    values, broken = taken(found[:end], lambda event, to=reader: self.read(to, event))
                    if values:
                        handed_on = True
                        yield values
                    if broken is not None:
                        raise broken
                    if end < len(found):
                        ended = True
                        break
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
        url = URL(self.endpoint.url.removesuffix("/v1") + path)
        return self._session().post(url, data=body, headers=self._headers_of(session), allow_redirects=False)

    def read(self, read: Callable[[bytes], Value], data: bytes) -> Value:
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

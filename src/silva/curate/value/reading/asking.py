"""Asking an endpoint by a route that no `Model` has, from code that is not asynchronous."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import msgspec
from yarl import URL

from silva.models.calling import Caller, Timing
from silva.models.connect import serve_spec

Value = TypeVar("Value")


class Asking(Caller):
    """A client that posts any JSON to any route."""

    async def post(self, url: str, body: dict[str, Any], read: Callable[[bytes], Value], deadline: float) -> Value:
        """The reply to a body, as `read` takes it.

        Raises:
            ModelError: no reply could be had.
        """
        data = msgspec.json.encode(body | self.endpoint.extra)
        return await self.ask(URL(url), data, self._headers_of(""), read, deadline=deadline, timing=Timing())


@asynccontextmanager
async def asking(spec: str) -> AsyncIterator[Asking]:
    """The client of an endpoint, closed at the end.

    Raises:
        SilvaError: the endpoint's name cannot be used, or it has to be asked for its models and cannot be.
    """
    served = await serve_spec(spec)
    client = Asking(served.endpoint, api_key=served.key)
    try:
        yield client
    finally:
        await client.close()
        if served.stop is not None:
            await asyncio.to_thread(served.stop)


def waited(work: Coroutine[Any, Any, Value]) -> Value:
    """What some work gives, whether or not a loop runs in this thread already."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()

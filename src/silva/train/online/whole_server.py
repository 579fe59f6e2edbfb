"""Model servers of the run's own, for a policy whose weights are trained whole: one for each version, for a while.

    folder ─▶ the next server starts ─▶ new requests go to it ─▶ the old one answers its last, and stops

Costs the memory of two for as long as both run, and the start of one a step: for small policies.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

from silva.models.child import Child
from silva.models.client import Client
from silva.models.endpoint import Endpoint
from silva.models.local import MODEL
from silva.models.local.server import start_local
from silva.models.local.weights import served_name
from silva.models.model import Completion, Delta, Model, Request
from silva.train.config import BUNDLED
from silva.train.online.config import ServeConfig
from silva.train.online.publisher import Named


class _Server:
    """One version's server. `in_flight` requests are under way."""

    def __init__(self, child: Child, name: str, folder: Path | None) -> None:
        endpoint = Endpoint(url=child.url, model=name, token_ids=True, api_key_env="")
        self.client = Client(endpoint, api_key=child.token)
        self.child, self.folder = child, folder
        self.in_flight = 0
        self.idle = asyncio.Event()
        self.idle.set()

    async def stop(self) -> None:
        await self.idle.wait()
        await self.client.close()
        await self.child.stop()
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)


class WholeServer:
    """See the module; a `Publisher`, and the `Model` that agents ask. Made by `start`."""

    def __init__(self, run: str, serve: ServeConfig, first: _Server) -> None:
        self.name = run
        self._versions = Named(run)
        self._serve, self._current = serve, first
        self._stopping: set[asyncio.Task[None]] = set()

    @classmethod
    async def start(cls, run: str, weights: str, serve: ServeConfig) -> WholeServer:
        """Start the first server.

        Raises:
            MissingError: a package is not installed.
            UsageError: the folder holds no model that can be served.
        """
        folder = None if weights == BUNDLED else Path(weights)
        child = await asyncio.to_thread(start_local, serve.threads, serve.rows, None, folder)
        return cls(run, serve, _Server(child, MODEL if folder is None else served_name(folder), None))

    @property
    def model(self) -> Model:
        """See `Publisher`."""
        return self

    async def publish(self, folder: Path, step: int) -> None:
        """See `Publisher`."""
        named = folder.with_name(self._versions.name(step))
        child = await asyncio.to_thread(_started, self._serve, folder, named)
        server = _Server(child, served_name(named), named)
        before, self._current = self._current, server
        task = asyncio.create_task(before.stop())
        self._stopping.add(task)
        task.add_done_callback(self._stopping.discard)

    async def complete(self, request: Request) -> Completion:
        """See `Model`."""
        server = self._entered()
        try:
            completion = await server.client.complete(request)
        finally:
            self._left(server)
        return completion

    async def stream(self, request: Request) -> AsyncIterator[Delta]:
        """See `Model`."""
        server = self._entered()
        try:
            async for delta in server.client.stream(request):
                yield delta
        finally:
            self._left(server)

    def number(self, version: str) -> int:
        """See `Publisher`; a server names its weights `NAME@DIGEST`, and NAME is the version's."""
        return self._versions.number(version.partition("@")[0])

    async def restore(self, step: int) -> str:
        """See `Publisher`."""
        return await self._versions.restore(step)

    async def confirm(self) -> None:
        """See `Publisher`."""
        await self._versions.confirm()

    async def close(self) -> None:
        """See `Publisher`."""
        self._current.idle.set()
        await asyncio.gather(*self._stopping, self._current.stop(), return_exceptions=True)

    def _entered(self) -> _Server:
        server = self._current
        server.in_flight += 1
        server.idle.clear()
        return server

    @staticmethod
    def _left(server: _Server) -> None:
        server.in_flight -= 1
        if not server.in_flight:
            server.idle.set()


def _started(serve: ServeConfig, folder: Path, named: Path) -> Child:
    """A server under the version's name: it names its weights after their folder."""
    shutil.rmtree(named, ignore_errors=True)  # of a process that was killed
    folder.rename(named)
    return start_local(serve.threads, serve.rows, None, named)

"""A model server of the run's own, for a policy that is an adapter: it holds several versions at once. On a GPU vLLM
takes its place (`vllm_server.py`).

    adapter's folder ─▶ loaded beside the old one, under the version's name ─▶ switch: new requests find it
                                                      │ older ones are unloaded once their last request is answered

Nothing is paused and nothing drained: a request that is under way ends on the version it began with.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from pathlib import Path
from typing import Any, Protocol

import aiohttp
import msgspec

from silva.errors import UnreachableError
from silva.models.child import Child
from silva.models.client import Client
from silva.models.endpoint import Endpoint
from silva.models.local import MODEL
from silva.models.local.server import start_local
from silva.models.local.weights import served_name
from silva.models.model import Model
from silva.train.config import BUNDLED
from silva.train.online.config import ServeConfig
from silva.train.online.publisher import Named

HELD = 2
"""Versions the server keeps: the newest, and the one before it, on which requests may still be under way."""
SECONDS = 330.0
"""How long the server may take to load an adapter."""


class Asked(Model, Protocol):
    """A model that this run opened, and closes."""

    async def close(self) -> None:
        """Release connections."""
        ...


class OwnServer(Named):
    """See the module; a `Publisher`. Made by `start`."""

    def __init__(self, run: str, child: Child, model: Asked, adapters: Path) -> None:
        super().__init__(run)
        self._run, self._child, self._model, self._adapters = run, child, model, adapters
        self._root = child.url.removesuffix("/v1")
        self._loaded: list[tuple[str, Path]] = []
        self._retiring: set[asyncio.Task[None]] = set()

    @classmethod
    async def start(cls, run: str, weights: str, adapters: Path, serve: ServeConfig) -> OwnServer:
        """Start the server with the plain weights.

        Args:
            run: names the versions.
            weights: a folder, or `local` for the bundled model.
            adapters: the folder its adapters will lie under.
            serve: its size.

        Raises:
            MissingError: a package is not installed.
            UsageError: the folder holds no model that can be served.
        """
        folder = None if weights == BUNDLED else Path(weights)
        child, where = await asyncio.to_thread(_started, serve, adapters, folder)
        name = MODEL if folder is None else served_name(folder)
        endpoint = Endpoint(url=child.url, model=name, token_ids=True, api_key_env="")
        return cls(run, child, Client(endpoint, api_key=child.token), where)

    @property
    def model(self) -> Model:
        """See `Publisher`."""
        return self._model

    async def publish(self, folder: Path, step: int) -> None:
        """See `Publisher`."""
        name = self.name(step)
        await self._load(name, f"{self._adapters}/{folder.name}")
        self._loaded.append((name, folder))
        while len(self._loaded) > HELD:
            task = asyncio.create_task(self._retire(*self._loaded.pop(0)))
            self._retiring.add(task)
            task.add_done_callback(self._retiring.discard)

    async def close(self) -> None:
        """See `Publisher`."""
        for task in self._retiring:
            task.cancel()
        await asyncio.gather(*self._retiring, return_exceptions=True)
        await self._model.close()
        await self._child.stop()

    async def _load(self, name: str, where: str) -> None:
        """Have the server load the adapter in `where` under a name, and new requests find it."""
        body = {"lora_name": name, "lora_path": where, "policy_version": name, "load_inplace": True}
        await self._ask("/v1/load_lora_adapter", body)
        await self._ask("/silva/policy", {"version": name})

    async def _retire(self, name: str, folder: Path) -> None:
        with contextlib.suppress(UnreachableError):  # it stays loaded, which costs memory and nothing else
            await self._ask("/v1/unload_lora_adapter", {"lora_name": name})
        shutil.rmtree(folder, ignore_errors=True)

    async def _ask(self, path: str, body: dict[str, Any]) -> None:
        headers = {"Authorization": f"Bearer {self._child.token}", "Content-Type": "application/json"}
        timeout = aiohttp.ClientTimeout(total=SECONDS)
        try:
            async with (
                aiohttp.ClientSession(timeout=timeout) as http,
                http.post(self._root + path, data=msgspec.json.encode(body), headers=headers) as answer,
            ):
                said = await answer.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise UnreachableError(
                f"run {self._run}: its model server does not answer ({type(error).__name__}); go on with --resume"
            ) from error
        if answer.status != 200:
            text = said.decode(errors="replace")[:300]
            raise UnreachableError(f"run {self._run}: its model server refused {path}: {text}")


def _started(serve: ServeConfig, adapters: Path, weights: Path | None) -> tuple[Child, Path]:
    adapters.mkdir(parents=True, exist_ok=True)
    where = adapters.resolve()
    return start_local(serve.threads, serve.rows, where, weights), where

"""vLLM as the run's own server, on a GPU: adapters loaded beside each other, the newest asked for by its name.

    child (vllm_child.py) ─▶ vLLM on a loopback port ─▶ ExactModel ─▶ the backend of the newest adapter's name
    publish: /v1/load_lora_adapter ─▶ new draws name it; a conversation goes on from the ids it has

vLLM says no policy version; a reply's is the name it was asked under. What reads and writes prompts is the policy's own
tokenizer and chat template, here, so that a turn begins with the very ids of the turns before, across versions.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from silva.models.bundled import weights_folder
from silva.models.child import Child, start_child
from silva.models.endpoint import Endpoint
from silva.models.exact.backend import Draw, NativeBackend, Piece, Sampled
from silva.models.exact.model import ExactModel
from silva.models.exact.open import open_backend
from silva.models.exact.source import open_renderer
from silva.models.local import MODEL
from silva.models.local.vllm import VllmOptions, require_vllm
from silva.models.local.weights import served_name
from silva.train.config import BUNDLED
from silva.train.online.config import ServeConfig
from silva.train.online.own_server import OwnServer

CHILD = "silva.train.online.vllm_child"


class Newest:
    """A `NativeBackend` that is always that of one name of a server; `turn` changes the name."""

    def __init__(self, url: str, token: str, name: str) -> None:
        self.name = name
        self._url, self._token = url, token
        self._current = self._opened(name)
        self._under_way: Counter[NativeBackend] = Counter()

    async def turn(self, name: str) -> None:
        """Draw under this name from now on. Draws under way end under theirs."""
        before, self._current = self._current, self._opened(name)
        if not self._under_way[before]:
            await before.close()

    async def sample(self, draw: Draw) -> Sampled:
        """See `NativeBackend`."""
        async with self._held() as backend:
            return await backend.sample(draw)

    async def stream(self, draw: Draw) -> AsyncIterator[Piece | Sampled]:
        """See `NativeBackend`."""
        async with self._held() as backend:
            async for piece in backend.stream(draw):
                yield piece

    async def close(self) -> None:
        """See `NativeBackend`."""
        await self._current.close()

    @asynccontextmanager
    async def _held(self) -> AsyncIterator[NativeBackend]:
        backend = self._current
        self._under_way[backend] += 1
        try:
            yield backend
        finally:
            self._under_way[backend] -= 1
            if not self._under_way[backend]:
                del self._under_way[backend]
                if backend is not self._current:
                    await backend.close()

    def _opened(self, name: str) -> NativeBackend:
        return open_backend("vllm", Endpoint(url=self._url, model=name, api_key_env=""), api_key=self._token)


class VllmServer(OwnServer):
    """See the module; a `Publisher`. Made by `start`."""

    def __init__(self, run: str, child: Child, model: ExactModel, newest: Newest, adapters: Path) -> None:
        super().__init__(run, child, model, adapters)
        self._newest = newest

    @classmethod
    async def start(cls, run: str, weights: str, adapters: Path, serve: ServeConfig) -> VllmServer:
        """Start vLLM with the plain weights; its first start on a GPU takes minutes.

        Args:
            run: names the versions.
            weights: a folder, or `local` for the bundled model.
            adapters: the folder its adapters will lie under.
            serve: its interpreter, devices and size.

        Raises:
            MissingError: the interpreter has no vLLM, or a package is not installed.
            UnreachableError: it ended, or was not healthy in time; its own words are on standard error.
        """
        folder = weights_folder() if weights == BUNDLED else Path(weights)
        name = MODEL if weights == BUNDLED else served_name(folder)
        renderer = open_renderer(folder)
        child, where = await asyncio.to_thread(_started, serve, adapters, folder, name)
        newest = Newest(child.url, child.token, name)
        return cls(run, child, ExactModel(renderer, newest), newest, where)

    async def _load(self, name: str, where: str) -> None:
        await self._ask("/v1/load_lora_adapter", {"lora_name": name, "lora_path": where})
        await self._newest.turn(name)


def _started(serve: ServeConfig, adapters: Path, folder: Path, name: str) -> tuple[Child, Path]:
    require_vllm(VllmOptions(python=serve.python))
    adapters.mkdir(parents=True, exist_ok=True)
    where = adapters.resolve()
    words = [str(folder), name, str(serve.rows), serve.python]
    seen = {"CUDA_VISIBLE_DEVICES": serve.devices} if serve.devices else None
    return start_child(CHILD, words, "vLLM", seen), where

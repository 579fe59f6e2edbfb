"""Embedding by an endpoint's `/embeddings`, as OpenAI's API has it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from yarl import URL

from silva.models.calling import Caller, Timing
from silva.models.connect import serve_spec
from silva.models.embedding.embedder import Vectors, unit
from silva.models.errors import ModelError

_BATCH = 64
_SECONDS = 300.0


class ServedEmbedder:
    """An embedder at an endpoint.

    Args:
        spec: `http://HOST:PORT/v1#NAME` or `openai:NAME`.
    """

    def __init__(self, spec: str) -> None:
        self._spec = spec
        self.name = spec

    @property
    def digest(self) -> str:
        """The endpoint and the name of its model: what stands behind them, nobody can say."""
        return self._spec

    def embed(self, texts: Sequence[str]) -> Vectors:
        """See `Embedder`; texts that say nothing are not sent."""
        chosen = [number for number, text in enumerate(texts) if text.strip()]
        if not chosen:
            return np.zeros((len(texts), 0), np.float32)
        with ThreadPoolExecutor(1) as pool:  # a loop may run in this thread already
            found = pool.submit(asyncio.run, self._ask([texts[number] for number in chosen])).result()
        vectors = np.zeros((len(texts), found.shape[1]), np.float32)
        vectors[chosen] = found
        return unit(vectors)

    async def _ask(self, texts: list[str]) -> Vectors:
        served = await serve_spec(self._spec)
        client = _Client(served.endpoint, api_key=served.key)
        try:
            batches = [texts[begin : begin + _BATCH] for begin in range(0, len(texts), _BATCH)]
            return np.concatenate([await client.embeddings(batch) for batch in batches])
        finally:
            await client.close()


class _Client(Caller):
    async def embeddings(self, texts: list[str]) -> Vectors:
        body = json.dumps({"model": self.endpoint.model, "input": texts}).encode()
        read = _reader(len(texts), self.endpoint.shown)
        url = URL(f"{self.endpoint.url}/embeddings")
        return await self.ask(url, body, self._headers_of(""), read, deadline=_SECONDS, timing=Timing())


def _reader(count: int, spec: str) -> Any:
    def read(data: bytes) -> Vectors:
        try:
            rows: Any = json.loads(data)["data"]
            vectors = np.array([each["embedding"] for each in sorted(rows, key=lambda row: row["index"])], np.float32)
        except (ValueError, KeyError, TypeError) as fault:
            raise ModelError("garbage", f"{spec}: its reply holds no embeddings ({fault})") from fault
        if vectors.ndim != 2 or len(vectors) != count or not np.isfinite(vectors).all():
            raise ModelError("garbage", f"{spec}: gave {len(vectors)} embeddings for {count} texts")
        return vectors

    return read

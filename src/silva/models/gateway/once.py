"""Loading something once although many ask for it at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Any


class Once:
    """What is being loaded, by its key. A caller that is cancelled does not take it from the others."""

    def __init__(self) -> None:
        self._loading: dict[Hashable, asyncio.Future[Any]] = {}

    async def __call__(self, key: Hashable, load: Callable[[], Awaitable[Any]]) -> Any:
        """What `load` gives, begun now or by who came before."""
        loading = self._loading.get(key)
        if loading is None:
            loading = self._loading[key] = asyncio.ensure_future(load())
            loading.add_done_callback(lambda _: self._loading.pop(key, None))
        return await asyncio.shield(loading)

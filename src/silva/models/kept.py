"""Models that are kept open for as long as a rollout lives: one client, or one local server, for all who ask the same.

keeping() ─▶ borrowed(spec) … borrowed(spec) : the same model ─▶ closed at the end of keeping
nobody keeps ─▶ borrowed(spec) : opened, and closed behind its use
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from contextvars import ContextVar

from silva.models.connect import open_model
from silva.models.model import Model


class _Kept:
    def __init__(self, stack: AsyncExitStack) -> None:
        self._stack, self._models, self._opening = stack, dict[str, Model](), asyncio.Lock()

    async def model(self, spec: str) -> Model:
        async with self._opening:  # one that cannot be had is not remembered: the next who asks tries again
            if spec not in self._models:
                made = await open_model(spec)
                self._stack.push_async_callback(made.close)
                self._models[spec] = made
            return self._models[spec]


_KEPT: ContextVar[_Kept | None] = ContextVar("kept", default=None)


@asynccontextmanager
async def keeping() -> AsyncIterator[None]:
    """Keep what is borrowed within, by whatever task, until the end."""
    async with AsyncExitStack() as stack:
        token = _KEPT.set(_Kept(stack))
        try:
            yield
        finally:
            _KEPT.reset(token)


@asynccontextmanager
async def borrowed(spec: str) -> AsyncIterator[Model]:
    """The model of a spec, kept where models are kept.

    Raises:
        UsageError, MissingError, ModelError: as `open_model`.
    """
    kept = _KEPT.get()
    if kept is not None:
        yield await kept.model(spec)
        return
    model = await open_model(spec)
    try:
        yield model
    finally:
        await model.close()

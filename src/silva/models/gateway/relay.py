"""A relay: the pieces of one turn's streamed reply on their way from a backend to the client.

a backend's deltas ─▶ within its silence? ─▶ emit ─▶ … ─▶ the last of them, with the whole Completion
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing

from silva.models.errors import ModelError
from silva.models.model import Completion, Delta

Emit = Callable[[Delta], Awaitable[None]]
"""Hands a piece of a streamed reply on to the client."""


class Relay:
    """Hands the pieces of one reply on, whichever backend says them.

    `began`: a piece went out, so no other backend can answer any more. `said` is how many characters were, `held_up`
    how many seconds the client took to take them.

    Args:
        emit: where the pieces go; None for a reply in one piece.
        silence: seconds between two pieces after which a backend has failed; None where only a deadline bounds them.
    """

    def __init__(self, emit: Emit | None, silence: float | None) -> None:
        self.began = False
        self.said = 0
        self.held_up = 0.0
        self.emit = emit
        self._silence = silence

    async def through(self, deltas: AsyncIterator[Delta], backend: str) -> Completion:
        """Hand on what a backend says, to its end.

        Raises:
            ModelError: it broke off, or was silent for too long.
        """
        assert self.emit is not None
        async with aclosing(deltas):  # pyright: ignore[reportArgumentType]
            while (delta := await self._next(deltas, backend)) is not None:
                if delta.completion is not None:
                    return delta.completion
                self.began = True
                self.said += len(delta.text) + len(delta.thinking) + sum(len(c.arguments) for c in delta.tool_calls)
                started = time.monotonic()
                await self.emit(delta)
                self.held_up += time.monotonic() - started
        raise ModelError("garbage", f"backend {backend}: the stream ended without its end", transient=True)

    async def _next(self, deltas: AsyncIterator[Delta], backend: str) -> Delta | None:
        if self._silence is None:
            return await anext(deltas, None)
        try:
            async with asyncio.timeout(self._silence):
                return await anext(deltas, None)
        except TimeoutError as error:
            what = f"backend {backend}: nothing came for {self._silence:g} seconds"
            raise ModelError("timeout", what, transient=True) from error

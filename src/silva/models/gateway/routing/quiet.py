"""Waiting for something to have nothing in flight: looked at whenever a request ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Quiet:
    """Those who wait for quiet, each with the question that tells it."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: list[tuple[Callable[[], bool], asyncio.Future[None]]] = []

    def __bool__(self) -> bool:
        return bool(self._waiting)

    async def wait(self, is_quiet: Callable[[], bool], seconds: float | None = None) -> bool:
        """Wait until `is_quiet`; False where that took more than `seconds`."""
        if is_quiet():
            return True
        entry = (is_quiet, asyncio.get_running_loop().create_future())
        self._waiting.append(entry)
        try:
            async with asyncio.timeout(seconds):
                await entry[1]
        except TimeoutError:
            return is_quiet()
        finally:
            if entry in self._waiting:
                self._waiting.remove(entry)
        return True

    def look(self) -> None:
        """A request ended: wake those for whom it is quiet now."""
        for entry in [entry for entry in self._waiting if entry[0]()]:
            self._waiting.remove(entry)
            if not entry[1].done():
                entry[1].set_result(None)

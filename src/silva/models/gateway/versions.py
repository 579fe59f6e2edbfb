"""The policy versions of one route that are adapters: which there are, and which backend has loaded which.

    swap ─▶ hold(version, folder) ─▶ every backend loads it ─▶ requests ask for it by name
    a backend that came later, or was started anew ─▶ ensure: loads it before its first request for it

What a route was swapped to stands in the lake, so a gateway that starts again serves the same version.
"""

from __future__ import annotations

import asyncio
import time

import silva
from silva.models.errors import ModelError
from silva.models.gateway.adapters import load_adapter
from silva.models.gateway.problem import Problem
from silva.models.gateway.routing.backend import Backend
from silva.tree import Lineage, Record, Run


class Swapped(Record, frozen=True, kw_only=True):
    """What a route serves since it was swapped: a version, and the folder of its adapter ("" where it has none)."""

    version: str
    adapter: str = ""


class Versions:
    """The adapters of one route."""

    def __init__(self) -> None:
        self._folders: dict[str, str] = {}
        self._loaded: set[tuple[str, str]] = set()
        self._loading: dict[tuple[str, str], asyncio.Task[None]] = {}

    def __contains__(self, version: object) -> bool:
        return version in self._folders

    def hold(self, swapped: Swapped) -> None:
        """Know of an adapter; backends load it when they are first asked for it."""
        if swapped.adapter:
            self._folders[swapped.version] = swapped.adapter

    async def load(self, backend: Backend, swapped: Swapped) -> None:
        """Have a backend load an adapter now.

        Raises:
            Problem: it cannot.
        """
        await load_adapter(backend, swapped.version, swapped.adapter)
        self._loaded.add((backend.url, swapped.version))

    async def ensure(self, backend: Backend, version: str) -> None:
        """Return once a backend has an adapter this route holds; many may ask at once, one loads.

        Raises:
            ModelError: it cannot load it; another may.
        """
        key = (backend.url, version)
        if key in self._loaded or version not in self._folders:
            return
        task = self._loading.get(key)
        if task is None:
            swapped = Swapped(version=version, adapter=self._folders[version])
            task = self._loading[key] = asyncio.create_task(self.load(backend, swapped))
            task.add_done_callback(lambda _: self._loading.pop(key, None))
        try:
            await asyncio.shield(task)
        except Problem as problem:
            raise ModelError("server", str(problem), transient=True) from problem

    def forget(self, backend: Backend) -> bool:
        """A backend refused what it is said to have loaded: it may have been started anew. Whether anything was."""
        lost = {key for key in self._loaded if key[0] == backend.url}
        self._loaded -= lost
        return bool(lost)


def record_of(route: str, swapped: Swapped) -> Run:
    """What the lake keeps of a swap; the last one of a route counts."""
    return Run(
        id=run_id(route),
        command="swap",
        model=route,
        config={"version": swapped.version, "adapter": swapped.adapter},
        lineage=Lineage(code=f"silva {silva.__version__}"),
        status="finished",
        started=time.time(),
        finished=time.time(),
    )


def swapped_of(run: Run | None) -> Swapped | None:
    """What a route was last swapped to, from its record."""
    version = "" if run is None else run.config.get("version")
    if run is None or not isinstance(version, str) or not version:
        return None
    return Swapped(version=version, adapter=str(run.config.get("adapter", "")))


def run_id(route: str) -> str:
    """The id under which a route's last swap stands in the lake."""
    return f"route:{route}"

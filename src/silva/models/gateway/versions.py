"""The policy versions of one route that are adapters: which there are, and which backend has loaded which.

    swap ─▶ spread: every backend that is up loads it ─▶ hold ─▶ requests ask for it by name ─▶ tidy: old ones unloaded
    a backend that came later, or was started anew ─▶ ensure: loads it before its first request for it

What a route was swapped to stands in the lake, so a gateway that starts again serves the same version.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence

import msgspec

import silva
from silva.models.errors import ModelError
from silva.models.gateway.adapters import NotThere, load_adapter, unload_adapter
from silva.models.gateway.problem import Problem
from silva.models.gateway.routing.backend import Backend, BackendState
from silva.tree import Lineage, Record, Run

KEPT = 3
"""Versions that backends keep loaded: the newest, and those before it, to which a route may be swapped back."""

log = logging.getLogger("silva.gateway.versions")


class Swapped(Record, frozen=True, kw_only=True):
    """What a route serves since it was swapped: a version, and the folder of its adapter ("" where it has none).
    `earlier` are the adapters that backends may have loaded besides, oldest first, with their folders."""

    version: str
    adapter: str = ""
    earlier: dict[str, str] = msgspec.field(default_factory=dict[str, str])


class Versions:
    """The adapters of one route."""

    def __init__(self) -> None:
        self._folders: dict[str, str] = {}
        """Of every version held; the one swapped to last comes last."""
        self._loaded: dict[tuple[str, str], str] = {}
        """The folder a version was loaded from, by the backend's url and the version."""
        self._loading: dict[tuple[str, str], asyncio.Task[None]] = {}

    def __contains__(self, version: object) -> bool:
        return version in self._folders

    @property
    def folders(self) -> dict[str, str]:
        """The versions held, and their folders; the one swapped to last comes last."""
        return dict(self._folders)

    def folder(self, version: str) -> str:
        """The folder a version is made of, "" for one that is not known."""
        loaded = (folder for (_, known), folder in self._loaded.items() if known == version)
        return self._folders.get(version) or next(loaded, "")

    def hold(self, swapped: Swapped) -> None:
        """Know of an adapter; backends load it when they are first asked for it."""
        if swapped.adapter:
            self._folders.pop(swapped.version, None)
            self._folders[swapped.version] = swapped.adapter

    def restore(self, states: Sequence[BackendState], swapped: Swapped) -> None:
        """Know of what was swapped to before this gateway was started. Backends may have the earlier ones loaded."""
        for version, folder in swapped.earlier.items():
            self.hold(Swapped(version=version, adapter=folder))
            self._loaded.update({(state.backend.url, version): folder for state in states})
        self.hold(swapped)

    async def load(self, backend: Backend, swapped: Swapped) -> None:
        """Have a backend load an adapter now.

        Raises:
            NotThere: it cannot be asked.
            Problem: it cannot load it.
        """
        await load_adapter(backend, swapped.version, swapped.adapter)
        self._loaded[backend.url, swapped.version] = swapped.adapter

    async def spread(self, states: Sequence[BackendState], swapped: Swapped) -> None:
        """Have every backend that is up load an adapter; the others load it once they are back.

        Raises:
            Problem: the version's name is taken by another folder, one that is up cannot load it, or none is up.
        """
        known = self.folder(swapped.version)
        if known not in ("", swapped.adapter):
            told = f"version {swapped.version} is the adapter in {known}"
            raise Problem("conflict", f"{told}: give that in {swapped.adapter} another name", "version")
        up = [state.backend for state in states if state.healthy and not state.draining]
        if states and not up:
            raise Problem("upstream", f"no backend is up that could load {swapped.version}: try again once one is")
        outcomes = await asyncio.gather(*(self.load(backend, swapped) for backend in up), return_exceptions=True)
        failed = [outcome for outcome in outcomes if outcome is not None]
        refused = [outcome for outcome in failed if not isinstance(outcome, NotThere)]
        if refused or (up and len(failed) == len(up)):
            raise (refused or failed)[0]

    async def ensure(self, backend: Backend, version: str, seconds: float) -> None:
        """Return once a backend has an adapter this route holds; many may ask at once, one loads. Where that takes
        longer than `seconds`, it goes on loading for the others, and for who comes next.

        Raises:
            ModelError: it cannot load it, or not so quickly; another may.
        """
        key = (backend.url, version)
        if key in self._loaded or version not in self._folders:
            return
        task = self._loading.get(key)
        if task is None:
            swapped = Swapped(version=version, adapter=self._folders[version])
            task = self._loading[key] = asyncio.create_task(self.load(backend, swapped))
            task.add_done_callback(lambda done: self._loaded_or_not(key, done))
        try:
            async with asyncio.timeout(seconds):
                await asyncio.shield(task)
        except TimeoutError as error:
            what = f"backend {backend.name} did not load {version} within {seconds:.3g} seconds"
            raise ModelError("timeout", what, transient=True) from error
        except Problem as problem:
            raise ModelError("server", str(problem), transient=True) from problem

    def _loaded_or_not(self, key: tuple[str, str], done: asyncio.Task[None]) -> None:
        self._loading.pop(key, None)
        if not done.cancelled() and (fault := done.exception()) is not None:
            log.warning("%s", fault)  # those that waited may all have gone

    def forget(self, backend: Backend) -> None:
        """A backend lacks what it is said to have loaded: it was started anew."""
        for key in [key for key in self._loaded if key[0] == backend.url]:
            del self._loaded[key]

    async def drop(self, states: Sequence[BackendState], version: str) -> None:
        """Undo the loading of a version that is not served after all, unless it was held before."""
        if version not in self._folders:
            await self._unload(states, lambda _, loaded: loaded == version)

    async def tidy(self, states: Sequence[BackendState], is_busy: Callable[[str, str], bool]) -> None:
        """Have backends let go of all but the newest versions. What they cannot let go of now, because something is in
        flight on it (`is_busy`, by url and version) or they are down, is tried again with the next."""
        urls = {state.backend.url for state in states}
        for key in [key for key in self._loaded if key[0] not in urls]:
            del self._loaded[key]
        old = set([*self._folders][:-KEPT])
        await self._unload(states, lambda url, version: version in old and not is_busy(url, version))
        for version in old - {version for _, version in self._loaded}:
            del self._folders[version]

    async def _unload(self, states: Sequence[BackendState], which: Callable[[str, str], bool]) -> None:
        up = {state.backend.url: state.backend for state in states if state.healthy}
        keys = [key for key in self._loaded if key[0] in up and which(*key)]
        outcomes = await asyncio.gather(
            *(unload_adapter(up[url], version) for url, version in keys), return_exceptions=True
        )
        for key, outcome in zip(keys, outcomes, strict=True):
            if outcome is None:
                self._loaded.pop(key, None)
            else:
                log.warning("%s", outcome)


def record_of(route: str, swapped: Swapped) -> Run:
    """What the lake keeps of a swap; the last one of a route counts."""
    return Run(
        id=run_id(route),
        command="swap",
        model=route,
        config=msgspec.to_builtins(swapped),
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
    earlier = {str(name): str(folder) for name, folder in (run.config.get("earlier") or {}).items()}
    return Swapped(version=version, adapter=str(run.config.get("adapter", "")), earlier=earlier)


def run_id(route: str) -> str:
    """The id under which a route's last swap stands in the lake."""
    return f"route:{route}"

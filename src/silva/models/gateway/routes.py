"""The models behind the gateway: names, the router of each, and the clients of its backends.

name asked for ─▶ Routes.find ─▶ RouteState ─▶ router.lease ─▶ Upstream of the backend given
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from difflib import get_close_matches
from typing import Any

import msgspec

from silva.errors import UnreachableError, UsageError
from silva.models.errors import ModelError
from silva.models.exact import Renderer, RenderError, open_renderer
from silva.models.exact.source import LOCAL
from silva.models.gateway.config import GatewayConfig, Limits, LocalBackends, Route
from silva.models.gateway.problem import Problem
from silva.models.gateway.providers import open_providers
from silva.models.gateway.routing.backend import Backend
from silva.models.gateway.routing.health import HealthChecks
from silva.models.gateway.routing.router import Router
from silva.models.gateway.upstream import NATIVE, Upstream
from silva.models.gateway.versions import Swapped, Versions
from silva.models.held import Held
from silva.tree import Json, Message, Tool, Usage

ANY = "*"
Note = Callable[[Swapped, str], Awaitable[None]]
"""Keeps what a route was swapped to; raises a `Problem` whose message begins with these words where it cannot."""
NEARLY = 0.9
"""Waiting in line takes something of a request's time; what is left of it counts as all from this share on."""


class RouteState:
    """One model: its router, and a client for every backend.

    Args:
        name: what clients call it.
        route: how it is configured.
        limits: what may wait.
        held: counts, together with others, what is kept of conversations.

    Raises:
        UsageError: its renderer cannot be opened.
    """

    def __init__(self, name: str, route: Route, limits: Limits, held: Held | None = None) -> None:
        self.name = name
        self.route = route
        self.deadline = route.deadline
        self.silence = min(route.silence_seconds or route.deadline, route.deadline)
        self.router = Router(name, route, limits)
        self.renderer = _renderer(name, route)
        self._held = held or Held()
        self._upstreams: dict[tuple[str, str, str], Upstream] = {}
        self._retired: dict[Upstream, asyncio.Task[None]] = {}
        self.versions = Versions()
        self._changing = asyncio.Lock()
        self.provided: list[Backend] = []
        """Backends that somebody else provides, in place of those configured."""
        self._stack = AsyncExitStack()

    async def start(self) -> None:
        """Start what provides its backends, and watch their health.

        Raises:
            UsageError, MissingError: a provider cannot be started.
        """
        fleet = self.router.fleet
        if self.provided:
            for backend in self.provided:
                fleet.add(backend)
            return
        for provider in open_providers(self.name, self.route):
            await provider.start(fleet)
            self._stack.push_async_callback(provider.stop)
        await self._stack.enter_async_context(HealthChecks(fleet, self.route.health))

    async def stop(self) -> None:
        """Refuse who waits, stop the providers, close the connections."""
        self.router.close()
        await self._stack.aclose()
        for task in self._retired.values():
            task.cancel()
        for upstream in [*self._upstreams.values(), *self._retired]:
            await upstream.close()
        self._upstreams.clear()
        self._retired.clear()

    async def upstream(self, lease: Any, seconds: float) -> Upstream:
        """The client for the backend of a lease. Where backends hold several versions the route's is asked for by name,
        whatever a backend calls what it answered with.

        Raises:
            ModelError: the backend cannot load the version, or not in so many seconds.
        """
        backend = lease.backend
        held = self.router.version if self.router.version in self.versions else ""
        if held:
            await self.versions.ensure(backend, held, seconds)
        key = (backend.name, backend.url, held)
        known = self._upstreams.get(key)
        if known is None:
            model = held or backend.model or self.name
            known = Upstream(backend, model, self.renderer, version=held, held=self._held)
            self._retire_others(held)
            self._upstreams[key] = known
        return known

    def lost(self, upstream: Upstream, error: ModelError) -> bool:
        """Whether a backend that failed like this lacks the adapter it had loaded: it was started anew, say. The next
        `upstream` has it loaded again."""
        if error.kind != "missing" or not upstream.version:
            return False
        self.versions.forget(upstream.backend)
        return True

    def forget(self, session: str) -> None:
        """Let go of what backends' clients keep of a session."""
        for upstream in (*self._upstreams.values(), *self._retired):
            upstream.forget(session)

    def _retire_others(self, version: str) -> None:
        """Have the clients closed of backends that are gone, and of other versions than the one served now. Turns in
        flight may use them still, but not for longer than a turn may take."""
        served = {(state.backend.name, state.backend.url) for state in self.router.fleet.states()}
        for key in [key for key in self._upstreams if key[:2] not in served or key[2] != version]:
            upstream = self._upstreams.pop(key)
            self._retired[upstream] = asyncio.create_task(self._closed_later(upstream))

    async def _closed_later(self, upstream: Upstream) -> None:
        await asyncio.sleep(self.deadline)
        del self._retired[upstream]
        await upstream.close()

    @property
    def priced(self) -> bool:
        """Whether its configuration says what it costs, be it nothing."""
        return "price" in self.route.model_fields_set

    def usd(self, usage: Usage) -> float:
        """What a reply cost in US dollars."""
        return self.route.price.usd(usage)

    def had_time(self, seconds: float) -> bool:
        """Whether a backend that gave nothing in this long had all the time, or nearly, that one is given here."""
        return min(seconds, self.silence) >= NEARLY * self.silence

    def count(self, messages: tuple[Message, ...], tools: tuple[Tool, ...]) -> int:
        """How many tokens a conversation has.

        Raises:
            Problem: this model's tokenizer is not here, or its template cannot hold the conversation.
        """
        if self.renderer is None:
            raise Problem("not_found", f"model {self.name} cannot count tokens here: its route names no renderer")
        try:
            return len(self.renderer.render(messages, tools))
        except RenderError as error:
            raise Problem("malformed", str(error)) from error

    async def swap(self, version: str, adapter: str, drain_seconds: float, note: Note) -> Json:
        """Serve another policy version from now on.

        With an adapter, every backend that is up loads it under the version's name first, while the old version goes
        on; then the default changes in one step: later requests ask for the new one, those in flight end on theirs.
        Without one the route is paused and drained, and the name changes: what serves it was changed by the caller; a
        version that backends were given as an adapter before is served as that again. Swaps that come at once are made
        one after another.

        Args:
            version: its name.
            adapter: its folder, or "".
            drain_seconds: how long what is in flight may take to end before a change without an adapter is given up.
            note: keeps what was swapped to; told also how to begin the sentence that it cannot.

        Raises:
            Problem: a backend cannot load it, the name is another adapter's, what is in flight took too long: the old
                version stays. Or it cannot be noted, and which version is served then.
        """
        async with self._changing:
            try:
                await self._swap(version, adapter or self.versions.folder(version), drain_seconds, note)
                await self.versions.tidy(self.router.fleet.states(), self._is_busy)
            except UsageError as error:
                raise Problem("conflict", str(error)) from error
            except UnreachableError as error:
                raise Problem("timeout", str(error)) from error
            return self.snapshot()

    async def _swap(self, version: str, adapter: str, drain_seconds: float, note: Note) -> None:
        swapped = Swapped(version=version, adapter=adapter, earlier=self.versions.folders)
        if not adapter:
            await self.router.swap(_nothing, version, drain_seconds=drain_seconds)
            await note(swapped, f"model {self.name} serves {version} from now on, but that")
            return
        states = self.router.fleet.states()
        try:
            await self.versions.spread(states, swapped)
            kept = self.router.version or "its version"
            await note(swapped, f"model {self.name} keeps {kept}: its swap to {version}")
        except Problem:
            await self.versions.drop(states, version)
            raise
        self.versions.hold(swapped)
        self.router.switch(version)

    def _is_busy(self, url: str, version: str) -> bool:
        """Whether something is in flight on a version at a backend."""
        known = (*self._upstreams.values(), *self._retired)
        return any(each.in_flight and each.backend.url == url and each.version == version for each in known)

    def restore(self, swapped: Swapped) -> None:
        """Serve what was swapped to before this gateway was started."""
        self.versions.restore(self.router.fleet.states(), swapped)
        self.router.switch(swapped.version)

    def snapshot(self) -> Json:
        """How it stands, for status pages."""
        return msgspec.to_builtins(self.router.snapshot())


class Routes:
    """All models of a gateway. `held` counts what they keep of conversations.

    Raises:
        UsageError: a renderer cannot be opened.
    """

    def __init__(self, config: GatewayConfig, held: Held | None = None) -> None:
        self._routes = {name: RouteState(name, route, config.limits, held) for name, route in config.models.items()}
        self._named = dict(self._routes)
        for name, route in config.models.items():
            self._named.update(dict.fromkeys(route.aliases, self._routes[name]))

    async def start(self) -> None:
        """Start every model's providers."""
        for route in self._routes.values():
            await route.start()

    async def stop(self) -> None:
        """Stop them."""
        await asyncio.gather(*(route.stop() for route in self._routes.values()))

    @property
    def all(self) -> list[RouteState]:
        """Every model."""
        return list(self._routes.values())

    @property
    def priced(self) -> bool:
        """Whether any model has a price."""
        return any(route.priced for route in self._routes.values())

    @property
    def names(self) -> list[str]:
        """What can be asked for by name."""
        return sorted(name for name in self._named if name != ANY)

    def forget(self, session: str) -> None:
        """Let go of what is kept of a session beside its turns."""
        for route in self._routes.values():
            route.forget(session)

    def find(self, name: str) -> RouteState:
        """The model of that name; the only one where no name is given.

        Raises:
            Problem: there is none.
        """
        found = self._named.get(name) or self._named.get(ANY)
        if found is None and not name and len(self._routes) == 1:
            found = next(iter(self._routes.values()))
        if found is None:
            close = get_close_matches(name[:200], self.names, 1)
            hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(self.names[:10]) or 'none'}"
            raise Problem("not_found", f"there is no model {name[:200]!r} here; {hint}", "model")
        return found

    def trouble(self) -> list[str]:
        """Why some cannot be asked right now."""
        found: list[str] = []
        for route in self._routes.values():
            fleet = route.router.fleet
            if not fleet.ready:
                found.append(f"model {route.name} has no backend" + (f": {told}" if (told := fleet.trouble()) else ""))
        return found

    def snapshot(self) -> list[Json]:
        """How each stands."""
        return [route.snapshot() for route in self._routes.values()]


def _renderer(name: str, route: Route) -> Renderer | None:
    """What writes the prompts of a model whose backends take ids."""
    source = route.renderer or _weights(route)
    if source:
        return open_renderer(source, options=dict(route.template), keep_history=route.keep_history)
    kinds = {"silva" if isinstance(backend, LocalBackends) else backend.kind for backend in route.backends}
    if kinds & NATIVE:
        raise UsageError(
            f"models.{name}: a backend of kind {min(kinds & NATIVE)} takes token ids, which need "
            f"models.{name}.renderer: the folder with tokenizer.json and the chat template"
        )
    return None


def _weights(route: Route) -> str:
    """The weights that all backends of a route serve here, which have tokenizer and template beside them; "" where
    there are others."""
    served = {
        (LOCAL if backend.weights is None else str(backend.weights)) if isinstance(backend, LocalBackends) else ""
        for backend in route.backends
    }
    return served.pop() if len(served) == 1 else ""


async def _nothing() -> None:
    """What a swap does whose version was changed by its caller."""

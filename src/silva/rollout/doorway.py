"""The doorway: a gateway on this run's lake, for agents that are programs and find their model over the wire.

model spec ─▶ an endpoint ─▶ one route that answers to every name ─▶ gateway on loopback, in this event loop
episode ─▶ enter(slot) ─▶ variables for the program, a token for this rollout alone among them
        ─▶ serving(server) ─▶ the address of its tools, and a token for these alone
                           … calls become nodes … ─▶ session ─▶ leave: the token is good no longer

The whole run's token is given to nobody, and rollouts that no episode entered are not answered: a program reaches
neither the siblings of its group nor a name of its own making, where its budget would not count.

A session is asked for when it is needed: one whose program computes for long may be let go meanwhile and read again.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any
from urllib.parse import urlsplit

import uvicorn

from silva.errors import UsageError
from silva.lake import Lake
from silva.models.connect import Served, serve_spec
from silva.models.gateway.app import GatewayApp
from silva.models.gateway.config import Budget, GatewayConfig, Limits, Price, Route, Runs, StaticBackend
from silva.models.gateway.gateway import Gateway
from silva.models.gateway.keeper import Keeper
from silva.models.gateway.rollout import Rollout
from silva.models.gateway.routing.backend import Backend
from silva.models.gateway.runs import RunAccount, new_run
from silva.models.gateway.serve import program_variables
from silva.models.gateway.session import Session
from silva.models.gateway.witness import Witness
from silva.models.serving.server import bind, server_config, url_of
from silva.rollout.config import Budget as EpisodeBudget
from silva.rollout.config import RolloutConfig
from silva.rollout.mcp_server import brought, refused
from silva.rollout.opening import served_as
from silva.rollout.slots import Slot
from silva.sandbox import open_backend
from silva.sandbox.protocol import Backend as Sandboxes
from silva.tree import Node, Trajectory, digest

MODEL = "model"
MCP = "/mcp"
"""Where, on the gateway's port, programs are served tools."""


class Doorway:
    """See the module. Made by `open_doorway`."""

    def __init__(
        self,
        gateway: Gateway,
        account: RunAccount,
        where: str,
        model: str,
        agent: str,
        sandboxes: Sandboxes,
        servers: Servers,
    ) -> None:
        self._gateway = gateway
        self._account = account
        self._where = where
        self._model = model
        self._agent = agent
        self.sandboxes = sandboxes
        """Where the programs run."""
        self._servers = servers

    @property
    def port(self) -> int:
        """The gateway's, on this machine's loopback."""
        return urlsplit(self._where).port or 80

    def enter(self, slot: Slot, budget: EpisodeBudget) -> tuple[Rollout, dict[str, str]]:
        """A rollout for one attempt, its calls bounded by `budget`, and the variables its program needs. The token
        among them opens this rollout and no other, until `leave`."""
        rollout = Rollout(
            run_id=self._account.id,
            name=f"{digest(slot.task.id)[:16]}-{slot.name}",
            task_id=slot.task.id,
            env=slot.env,
            index=slot.index,
            attempt=slot.attempt,
            seed=slot.seed,
            agent=self._agent,
            most_turns=budget.turns,
            most_tokens=budget.episode_tokens,
        )
        token = self._gateway.open_rollout(self._account, rollout)
        variables = program_variables(self._where, token, self._account.id, rollout.name)
        return rollout, {**variables, "SILVA_MODEL": self._model, "SILVA_ROLLOUT": rollout.name}

    @asynccontextmanager
    async def serving(self, rollout: Rollout, server: Any, witness: Witness) -> AsyncIterator[tuple[str, str]]:
        """Serve an MCP server to one attempt's program until the end of the block, on the gateway's own port; its
        address, and the token that opens it and nothing else.

        Args:
            rollout: the attempt.
            server: from `silva.rollout.mcp_server`.
            witness: told what the program says to its model; what it was served may be among it.
        """
        token = secrets.token_urlsafe(24)
        self._gateway.witnesses[rollout.run_id, rollout.name] = witness
        app = server.streamable_http_app(streamable_http_path=MCP)
        async with server.session_manager.run():
            self._servers.open[token.encode()] = app
            try:
                yield f"{self._where}{MCP}", token
            finally:
                del self._servers.open[token.encode()]

    async def session(self, rollout: Rollout) -> Session:
        """What the attempt has said to its model so far."""
        return await self._gateway.session(self._account, rollout.name)

    def walk(self, trajectory: Trajectory) -> tuple[Node, ...]:
        """The turns of an attempt's main conversation so far; blocks."""
        return self._gateway.keeper.lake.walk(trajectory)

    def leave(self, rollout: Rollout) -> None:
        """The attempt has ended: what is left of its program is answered no more."""
        self._gateway.dismiss(rollout)


class Servers:
    """An ASGI application in front of the gateway's: requests for MCP go to the server that their token opens.

    Args:
        gateway: the application that has all the others.
    """

    def __init__(self, gateway: GatewayApp) -> None:
        self.bounds = gateway.bounds
        self.open: dict[bytes, Any] = {}
        self._gateway = gateway

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan" or scope["path"] != MCP:
            await self._gateway(scope, receive, send)
        elif (app := self.open.get(brought(scope))) is not None:
            await app(scope, receive, send)
        else:
            await refused(send)


class _Server(uvicorn.Server):
    """A server in somebody else's loop, who minds the signals."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals alone."""
        yield


@asynccontextmanager
async def open_doorway(config: RolloutConfig, lake: Lake) -> AsyncIterator[Doorway]:
    """Serve the run's model to programs until the end of the block.

    Raises:
        UsageError, MissingError, ModelError: the model, or the sandbox that is asked for, cannot be had.
    """
    served = await serve_spec(config.model, **served_as(config))
    try:
        gateway = _gateway(config, lake, served)
        budget = Budget(usd=config.budget.usd, tokens=config.budget.tokens)
        account, _ = new_run(config.run, Runs(budget=budget, hours=24 * 365), {}, time.time())
        gateway.adopt(account)
        listening = bind("127.0.0.1", 0)
        ready = asyncio.Event()
        app = GatewayApp(gateway, secrets.token_urlsafe(24), started=ready.set)
        servers = Servers(app)
        server = _Server(server_config(servers, listening))
        serving = asyncio.create_task(server.serve(sockets=[listening]))
        serving.add_done_callback(lambda _: ready.set())
        await ready.wait()
        if app.failure is not None:
            raise UsageError(str(app.failure))
        try:
            name = served.endpoint.model
            where = url_of(listening).removesuffix("/v1")
            async with await open_backend(config.program.sandbox) as sandboxes:
                yield Doorway(gateway, account, where, name, config.agent, sandboxes, servers)
        finally:
            server.should_exit = True
            with contextlib.suppress(asyncio.CancelledError):
                await serving
    finally:
        if served.stop is not None:
            await asyncio.to_thread(served.stop)


def _gateway(config: RolloutConfig, lake: Lake, served: Served) -> Gateway:
    """A gateway with one route: the model, under whatever name a program asks for it."""
    endpoint = served.endpoint
    static = StaticBackend(url=endpoint.url, kind="chat", model=endpoint.model)
    route = Route(
        backends=(static,),
        aliases=("*",),
        renderer=served.renderer,
        deadline=config.deadlines.model,
        price=Price(
            input=endpoint.input_price,
            output=endpoint.output_price,
            cached=endpoint.cached_price,
            written=endpoint.written_price,
        ),
        concurrency={"start": min(config.pool, 1024), "most": 4096},  # pyright: ignore[reportArgumentType]
    )
    limits = Limits(connections=max(4096, 8 * config.pool))
    told = GatewayConfig(models={endpoint.model or MODEL: route}, limits=limits)
    gateway = Gateway(told, Keeper(lake), resumes=False, announced=True)
    backend = Backend(
        name="model",
        url=endpoint.url,
        kind=served.kind,  # pyright: ignore[reportArgumentType]
        model=endpoint.model,
        token=served.key or "",
        api_key_env=endpoint.api_key_env,
        headers=endpoint.headers,
        ids=endpoint.token_ids,
        max_tokens_field=endpoint.max_tokens_field,
    )
    gateway.routes.all[0].provided = [backend]
    return gateway

"""A gateway as a server: alone on a lake of its own, or beside a rollout that has one."""

from __future__ import annotations

import logging
import signal
import socket
import sys
from collections.abc import Callable

from silva.allocating import share_arenas
from silva.collecting import collect_seldom
from silva.errors import UsageError
from silva.lake import Lake
from silva.models.gateway.admin import base_urls
from silva.models.gateway.app import GatewayApp
from silva.models.gateway.config import GatewayConfig
from silva.models.gateway.gateway import Gateway
from silva.models.gateway.keeper import Keeper
from silva.models.gateway.problem import Problem
from silva.models.serving.bounds import open_files
from silva.models.serving.server import serve_forever, url_of

log = logging.getLogger(__name__)

WINDOW_MS = 0.0
"""The journal does not gather turns before it writes: what comes while it writes is the next batch."""

CACHES_MB = 36.0
"""The lake's: a gateway reads a rollout's turns now and then, and its tables have a new version every few seconds."""

SWITCH_SECONDS = 0.0005
"""How long the journal's and the compactor's threads may keep the loop waiting: a tenth of Python's own bound."""


def serve_gateway(
    config: GatewayConfig,
    listening: socket.socket,
    token: str,
    say: Callable[[str], None],
    run: str | None = None,
) -> None:
    """Serve until SIGINT or SIGTERM.

    Args:
        config: what to serve.
        listening: from `bind`.
        token: the admin token.
        say: told the url once it answers, then, line by line, what programs of `run` need.
        run: a run to open at once.

    Raises:
        StoreError: the lake cannot be opened, or not be closed; what was acknowledged is in it.
        UsageError: a backend, renderer or provider is not usable, or the run cannot be opened.
    """

    def open_lake() -> Lake:
        return Lake.open(config.lake, window_ms=WINDOW_MS, compaction="process", caches_mb=CACHES_MB)

    if short := open_files(config.limits.connections):
        log.warning("%s", short)
    where = url_of(listening).removesuffix("/v1")
    share_arenas()
    collect_seldom()
    sys.setswitchinterval(SWITCH_SECONDS)
    keeper = Keeper(open_lake(), open_lake)
    try:
        gateway = Gateway(config, keeper)

        async def started() -> None:
            lines = [where]
            if run is not None:
                _, key = await gateway.open_run(run, again=True)
                gateway.closing.add(run)
                lines += [f"export {name}={value}" for name, value in program_variables(where, key, run).items()]
            for line in lines:
                say(line)

        app = GatewayApp(gateway, token, started=started)
        # uvicorn raises the signal that stopped it again, which would end us before the lake is closed
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        serve_forever(app, listening, lambda _: None)
        if app.failure is not None:
            raise UsageError(str(app.failure)) if isinstance(app.failure, Problem) else app.failure
    finally:
        keeper.lake.close_sync()


def program_variables(where: str, key: str, run: str, rollout: str = "") -> dict[str, str]:
    """The environment variables by which unmodified programs find the gateway: what the vendors' SDKs read, and a few
    that agents add of their own."""
    urls = base_urls(where, run, rollout)
    return {
        "OPENAI_BASE_URL": urls["base_url"],
        "OPENAI_API_BASE": urls["base_url"],
        "OPENAI_API_KEY": key,
        "ANTHROPIC_BASE_URL": urls["anthropic_base_url"],
        "ANTHROPIC_API_KEY": key,
    }

"""`silva envs serve-mcp ENV`: an environment that a coding agent plays with its own MCP client."""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from silva.errors import Exit, UsageError

if TYPE_CHECKING:
    from silva.rollout.config import RolloutConfig

TOKEN = "SILVA_MCP_TOKEN"
WEEK = 7 * 24 * 3600.0


def serve_mcp(
    env: Annotated[str, typer.Argument(metavar="ENV", help="The environment.")],
    task: Annotated[list[str] | None, typer.Option(help="Only this task, by its id; may be repeated.")] = None,
    split: Annotated[str, typer.Option(help="Which split.")] = "test",
    limit: Annotated[int, typer.Option(help="At most so many tasks, one after the other.", min=1)] = 1,
    run: Annotated[str | None, typer.Option("--run", help="Name of the run in the lake.")] = None,
    lake: Annotated[str | None, typer.Option("--lake", envvar="SILVA_LAKE", help="Folder or object-store URL.")] = None,
    model: Annotated[str, typer.Option(help="What stands in records as the model.")] = "mcp-client",
    port: Annotated[
        int | None, typer.Option("--http", help="Serve over HTTP on this port of loopback (0: any), not over stdio.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue a run that was left.")] = False,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", help="A key of the rollout's configuration, such as stages.carried={}.")
    ] = None,
) -> None:
    """Serve an environment as an MCP server, over stdio or HTTP; what its player does is a run of the lake."""
    import json

    from silva.cli.config import load
    from silva.rollout.config import RolloutConfig
    from silva.rollout.mcp_server import needed

    needed()
    given: dict[str, Any] = {"env": env, "run": run, "lake": lake, "model": model, "pool": 1, "hosts.count": 1}
    given |= {"tasks.split": split, "tasks.limit": None if task else limit, "tasks.ids": task, "retries": 0}
    given |= {"deadlines.episode": WEEK}
    dotted = [f"{key}={json.dumps(value)}" for key, value in given.items() if value is not None]
    settings = load(RolloutConfig, None, [*dotted, *(overrides or [])])
    if resume and run is None:
        raise UsageError("--resume needs the name of the run: --run NAME")
    left = asyncio.run(_serve(settings, port, resume))
    if left:
        typer.echo(f"{left} tasks are left: the same command with --run {settings.run} --resume continues", err=True)
        raise typer.Exit(int(Exit.INCOMPLETE))


async def _serve(settings: RolloutConfig, port: int | None, resume: bool) -> int:
    from silva.rollout.outside import Outside
    from silva.rollout.outside_mcp import server
    from silva.rollout.run import Hooks, run_rollout

    outside, schedulers = Outside(), list[Any]()
    hooks = Hooks(
        on_start=lambda scheduler, ledger, total: schedulers.append(scheduler),
        on_end=outside.ended,
        agent_for=outside.agent_for,
    )
    playing = asyncio.create_task(run_rollout(settings, resume=resume, hooks=hooks))
    playing.add_done_callback(lambda done: outside.over("" if done.cancelled() else str(done.exception() or "")))
    made = server(settings.env[0].split("/")[0], outside)
    serving = asyncio.create_task(_stdio(made) if port is None else _http(made, port, playing))
    # A player who leaves ends the run; a run that cannot be played ends the serving.
    await asyncio.wait([serving, playing], return_when=asyncio.FIRST_COMPLETED)
    if playing.done() and playing.exception() is not None:
        serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)
    for scheduler in schedulers:
        scheduler.stop()
    return (await playing).remaining


async def _stdio(server: Any) -> None:
    from mcp.server.stdio import stdio_server

    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


async def _http(server: Any, port: int, playing: asyncio.Task[Any]) -> None:
    import socket

    import uvicorn

    from silva.models.serving.server import server_config
    from silva.rollout.mcp_server import guarded

    token = os.environ.get(TOKEN) or secrets.token_urlsafe(24)
    listening = socket.create_server(("127.0.0.1", port))
    url = f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
    sys.stderr.write(f"serving {url}\n")
    if TOKEN not in os.environ:
        sys.stderr.write(f"token (shown this once; {TOKEN} sets one): {token}\n")
    sys.stderr.flush()
    app = guarded(server.streamable_http_app(json_response=True), token)
    config = server_config(app, listening)
    config.timeout_graceful_shutdown = 2
    serving = uvicorn.Server(config)

    def leave(done: Any) -> None:
        asyncio.get_running_loop().call_later(1.0, setattr, serving, "should_exit", True)

    playing.add_done_callback(leave)
    await serving.serve(sockets=[listening])

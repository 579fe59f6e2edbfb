"""`silva models serve|test`: a model of our own as a server, and what any model can do."""

from __future__ import annotations

import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from silva.errors import Exit

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Serve a scripted or local model; test an endpoint.")


class Engine(StrEnum):
    """What computes the local model."""

    torch = "torch"
    vllm = "vllm"


@app.command()
def serve(
    what: Annotated[str, typer.Argument(help="`local`, or the path of a script (YAML or JSON).")] = "",
    scripted: Annotated[str, typer.Option(help="A script to serve; the same as naming it as the argument.")] = "",
    host: Annotated[
        str, typer.Option(help="Address to listen on; other than loopback needs --token-env.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 8000,
    token_env: Annotated[str, typer.Option(help="Environment variable with the token clients must present.")] = "",
    threads: Annotated[int | None, typer.Option(min=1, help="Threads the local model computes with.")] = None,
    rows: Annotated[int, typer.Option(min=1, help="Most requests the local model computes at once.")] = 32,
    adapters: Annotated[
        Path | None,
        typer.Option(help="Folder that LoRA adapters may be loaded from while it serves; needs --token-env."),
    ] = None,
    engine: Annotated[
        Engine, typer.Option(help="What computes the local model: torch (here), or vllm (a GPU).")
    ] = Engine.torch,
    engine_python: Annotated[
        str, typer.Option(help="Interpreter of the environment that has vLLM; left out, Silva's own.")
    ] = "",
) -> int:
    """Serve a model over the OpenAI routes until Ctrl-C; prints the url."""
    from silva.errors import UsageError
    from silva.models.local.server import ENVIRONMENT, serve_local
    from silva.models.scripted import ScriptedApp, load_script
    from silva.models.serving.server import bind, demand_token, serve_forever

    if bool(what) == bool(scripted):
        raise UsageError("say what to serve: 'silva models serve local' or 'silva models serve --scripted FILE'")
    token = os.environ.get(token_env) or None if token_env else None
    if token_env and token is None:
        raise UsageError(f"--token-env names ${token_env}, which is not set: put the token there")
    demand_token(host, token)
    if what != "local" and (adapters or engine_python or engine is not Engine.torch):
        raise UsageError("--adapters, --engine and --engine-python are of the local model: 'silva models serve local'")
    if adapters is not None and token is None:
        raise UsageError("--adapters lets clients change what is served: name a token with --token-env")
    if adapters is not None and not adapters.is_dir():
        raise UsageError(f"--adapters names {adapters}, which is no folder: make it first")
    if what == "local" and engine is Engine.vllm:
        return _serve_vllm(host, port, token, rows, adapters is not None, engine_python)
    if what == "local":
        os.environ.update(ENVIRONMENT)  # before torch is loaded, which reads them once
        listening = bind(host, port)
        sys.stderr.write("loading the local model (the first time ever takes about a minute)\n")
        serve_local(listening, token, _say, threads=threads, rows=rows, adapters=adapters)
    else:
        application = ScriptedApp(load_script(scripted or what), token)
        serve_forever(application, bind(host, port), _say)
    return Exit.OK


def _serve_vllm(host: str, port: int, token: str | None, rows: int, adapters: bool, python: str) -> int:
    from silva.models.local.vllm import VllmOptions, require_vllm, serve_vllm
    from silva.models.local.weights import weights_folder

    options = VllmOptions(host=host, port=port, token=token, rows=rows, adapters=adapters, python=python)
    require_vllm(options)  # before weights are unpacked for it
    sys.stderr.write("starting vLLM; its words follow\n")
    return serve_vllm(weights_folder(), options, _say)


@app.command()
def test(
    spec: Annotated[str, typer.Argument(help="local, scripted:FILE, http://HOST:PORT/v1#NAME or openai:NAME.")],
    deadline: Annotated[float, typer.Option(min=0.1, help="Seconds for each try.")] = 60.0,
    api_key_env: Annotated[str, typer.Option(help="Environment variable with the api key.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> int:
    """Try a model: a chat, a tool call, a stream, logprobs, token ids. Exit code 4 where a plain chat fails."""
    import asyncio

    import msgspec

    from silva.models.check import check_model

    endpoint: dict[str, object] = {"api_key_env": api_key_env} if api_key_env else {}
    report = asyncio.run(check_model(spec, deadline, endpoint=endpoint))
    if as_json:
        body = {**msgspec.to_builtins(report), "works": report.works}
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(body)).decode() + "\n")
    else:
        from rich.console import Console
        from rich.markup import escape
        from rich.table import Table

        table = Table(title=f"{escape(report.model)}", title_justify="left")
        for name in ("what", "works", "ms", "detail"):
            table.add_column(name, justify="right" if name == "ms" else "left")
        for check in report.checks:
            table.add_row(check.name, check.status, f"{check.seconds * 1000:.0f}", escape(check.detail))
        Console().print(table)
    return Exit.OK if report.works else Exit.UNREACHABLE


def _say(url: str) -> None:
    sys.stdout.write(f"{url}\n")
    sys.stdout.flush()

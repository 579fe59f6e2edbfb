"""`silva models serve|tiny|test`: a model of our own as a server, one made from nothing, and what any model can do."""

from __future__ import annotations

import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from silva.errors import Exit

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="Serve a scripted or local model; make a tiny one; test an endpoint.",
)


class Engine(StrEnum):
    """What computes the local model."""

    torch = "torch"
    vllm = "vllm"


@app.command()
def serve(
    what: Annotated[
        str, typer.Argument(help="`local`, or a script's path (YAML or JSON); `local:FOLDER`, `scripted:FILE`.")
    ] = "",
    weights: Annotated[
        Path | None,
        typer.Option(help="A llama's folder (config.json, model.safetensors, …) instead of the bundled one."),
    ] = None,
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

    kind, _, place = what.partition(":")
    if place and kind == "scripted":  # as --model names it elsewhere
        what = place
    if place and kind == "local":
        what, weights = "local", weights or Path(place)
    if weights is not None and not what:
        what = "local"
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
    if weights is not None and what != "local":
        raise UsageError("--weights is of the local model: 'silva models serve --weights FOLDER'")
    if what == "local" and engine is Engine.vllm:
        return _serve_vllm(host, port, token, rows, adapters is not None, engine_python, weights)
    if what == "local":
        os.environ.update(ENVIRONMENT)  # before torch is loaded, which reads them once
        listening = bind(host, port)
        if weights is None:
            sys.stderr.write("loading the local model (the first time ever takes about a minute)\n")
        serve_local(listening, token, _say, threads=threads, rows=rows, adapters=adapters, weights=weights)
    else:
        application = ScriptedApp(load_script(scripted or what), token)
        serve_forever(application, bind(host, port), _say)
    return Exit.OK


def _serve_vllm(
    host: str, port: int, token: str | None, rows: int, adapters: bool, python: str, weights: Path | None
) -> int:
    from silva.models.bundled import weights_folder
    from silva.models.local import MODEL
    from silva.models.local.vllm import VllmOptions, require_vllm, serve_vllm
    from silva.models.local.weights import served_name

    name = MODEL if weights is None else served_name(weights)
    options = VllmOptions(host=host, port=port, token=token, rows=rows, adapters=adapters, python=python, name=name)
    require_vllm(options)  # before weights are unpacked for it
    sys.stderr.write("starting vLLM; its words follow\n")
    return serve_vllm(weights_folder() if weights is None else weights, options, _say)


class Form(StrEnum):
    """How an agent has its model write an action."""

    react = "react"
    tools = "tools"


@app.command()
def tiny(
    env: Annotated[str, typer.Option(help="Environment whose words it is to know (silva envs list).")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder to write; must be new or empty.")],
    agent: Annotated[Form, typer.Option(help="The agent it will play as: react or tools.")] = Form.react,
    split: Annotated[str, typer.Option(help="Split of the tasks its words are read from.")] = "train",
    limit: Annotated[int, typer.Option(min=1, help="So many of those tasks, played by the expert.")] = 200,
    seed: Annotated[int, typer.Option(help="Seed of the first weights.")] = 0,
    shape: Annotated[
        list[str] | None, typer.Option(help="Size of the network, such as layers=6; repeat for several.")
    ] = None,
) -> int:
    """Make a policy from nothing: a llama of a few million parameters and a tokenizer of the environment's words."""
    import asyncio

    from silva.cli.config import load
    from silva.models.tiny import Shape, demand_free, write_tiny
    from silva.rollout.conversations import expert_conversations

    size = load(Shape, None, shape or ())
    demand_free(output)  # before the expert plays for minutes
    heard = asyncio.run(expert_conversations(env, form=agent.value, split=split, limit=limit))
    made = write_tiny(output, heard, size, seed)
    sys.stdout.write(f"{output}: {made.parameters:,} parameters, {made.vocabulary:,} tokens\n")
    return Exit.OK


@app.command()
def test(
    spec: Annotated[
        str,
        typer.Argument(
            help="local, local:FOLDER, vllm:FOLDER, scripted:FILE, http://HOST:PORT/v1#NAME or openai:NAME."
        ),
    ],
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

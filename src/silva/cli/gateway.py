"""`silva gateway`: one door between agents and models; every turn that passes is kept."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from silva.cli.config import load, render
from silva.cli.serving import tell_troubles, told_admin_token

app = typer.Typer(add_completion=False)


@app.command()
def gateway(
    overrides: Annotated[
        list[str] | None, typer.Argument(help="Dotted overrides of the config, such as listen.port=0.")
    ] = None,
    config: Annotated[Path | None, typer.Option("--config", "-c", help="YAML or TOML file.")] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(
            help="NAME=SPEC; repeat for several. SPEC: local, or http://HOST:PORT/v1#NAME"
            " (?token_ids=1, ?kind=vllm&renderer=FOLDER)."
        ),
    ] = None,
    lake: Annotated[str | None, typer.Option(help="Folder or object-store URL.", envvar="SILVA_LAKE")] = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(help="Port; 0 takes a free one.")] = None,
    admin_token_file: Annotated[
        Path | None, typer.Option(help="Write the admin token into this file, readable by you alone.")
    ] = None,
    run: Annotated[
        str | None, typer.Option(help="Open this run, print what programs need, close it with the gateway.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the configuration, start nothing.")] = False,
) -> None:
    """Serve every model to every agent and keep every turn; prints the url."""
    from silva.models.gateway.config import GatewayConfig

    given: dict[str, Any] = {"lake": lake, "listen.host": host, "listen.port": port}
    dotted = [f"{key}={json.dumps(value)}" for key, value in given.items() if value is not None]
    for each in model or ():
        name, route = _route(each)
        dotted.append(f"models.{name}={json.dumps(route)}")
    settings = load(GatewayConfig, config, [*dotted, *(overrides or [])])
    if dry_run:
        sys.stdout.write(render(settings) + "\n")
        return
    if not settings.models:
        from silva.errors import UsageError

        raise UsageError("a gateway needs a model: --model NAME=http://HOST:PORT/v1#NAME, or models in a --config file")
    _serve(settings, admin_token_file, run)


def _route(text: str) -> tuple[str, dict[str, Any]]:
    """A model from the command line: its name and its route."""
    from silva.errors import UsageError

    name, equals, spec = text.partition("=")
    if not equals or not name or "." in name:
        raise UsageError(f"--model {text!r}: write NAME=SPEC, the name without dots (others: a config file)")
    if spec == "local":
        return name, {"backends": [{"provider": "local"}], "renderer": "local"}
    if spec.startswith("local:") and spec != "local:":
        return name, {"backends": [{"provider": "local", "weights": spec.removeprefix("local:")}]}
    if spec.startswith(("http://", "https://")):
        return name, _remote(text, spec)
    raise UsageError(
        f"--model {text!r}: possible are NAME=local, NAME=local:FOLDER and NAME=http://HOST:PORT/v1#NAME; else a "
        "config file"
    )


def _remote(text: str, spec: str) -> dict[str, Any]:
    """A route to one url; what its query says of it: `token_ids=1`, `kind=vllm`, `renderer=FOLDER`."""
    from urllib.parse import parse_qsl, urlsplit, urlunsplit

    from silva.errors import UsageError

    parts = urlsplit(spec)
    asked = dict(parse_qsl(parts.query))
    backend: dict[str, Any] = {
        "url": urlunsplit((parts.scheme, parts.netloc, parts.path, "", "")),
        "model": parts.fragment,
        "kind": asked.pop("kind", "chat"),
        "ids": asked.pop("token_ids", "") in ("1", "true", "yes"),
        "api_key_env": "SILVA_API_KEY",
    }
    route = {"backends": [backend], "renderer": asked.pop("renderer", "")}
    if asked:
        raise UsageError(
            f"--model {text!r}: {next(iter(asked))!r} is not known; possible are token_ids, kind, renderer"
        )
    return route


def _serve(settings: Any, token_file: Path | None, run: str | None) -> None:
    from silva.models.gateway.serve import serve_gateway
    from silva.models.serving.server import bind

    tell_troubles()
    listen = settings.listen
    token = told_admin_token(listen.host, listen.admin_token_env, token_file)
    serve_gateway(settings, bind(listen.host, listen.port), token, _say, run)


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()

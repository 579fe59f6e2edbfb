"""`silva guide serve`: guidance over HTTP, and a web hook out."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Annotated

import typer

from silva.errors import UsageError


def serve(
    lake: Annotated[str | None, typer.Option("--lake", envvar="SILVA_LAKE", help="The runs' lake.")] = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port; 0 takes a free one.")] = 8765,
    token_env: Annotated[str, typer.Option(help="The environment variable that holds the token.")] = "",
    token_file: Annotated[Path | None, typer.Option(help="Write the token into this file, for you alone.")] = None,
    person: Annotated[
        list[str] | None,
        typer.Option(help="NAME=VARIABLE: the token in that variable speaks as NAME, and as nobody else."),
    ] = None,
    hook: Annotated[list[str] | None, typer.Option(help="Send what happens to this URL, as JSON.")] = None,
    hook_secret_env: Annotated[str, typer.Option(help="The variable with the secret that signs what is sent.")] = "",
) -> None:
    """Take words for agents over HTTP, show who waits; prints the url. On loopback, and with a token."""
    from silva.guide.app import GuideApp
    from silva.guide.hook import Hook
    from silva.hosts import is_loopback
    from silva.lake import Lake, default_location
    from silva.models.serving.admin import write_secret
    from silva.models.serving.server import bind, serve_forever

    where = str(lake or default_location())
    Lake.open(where, mode="read")
    if not token_env and not is_loopback(host):
        raise UsageError(
            f"serving on {host} lets other machines in: put a token into a variable, name it (--token-env)"
        )
    token, drawn = (_named(token_env, "--token-env"), False) if token_env else (_drawn(), True)
    people = dict(_person(each) for each in person or ())
    if len({token, *people.values()}) != 1 + len(people):
        raise UsageError("two people have one token: give each one of their own")
    secret = _named(hook_secret_env, "--hook-secret-env") if hook_secret_env else ""
    hooks = [Hook(where, each, secret) for each in hook or ()]
    listening = bind(host, port)
    if token_file is not None:
        write_secret(token_file, token)
    elif drawn:
        sys.stderr.write(f"token (shown this once; --token-file keeps it): {token}\n")

    def started() -> None:
        for each in hooks:
            each.start()

    def stopped() -> None:
        for each in hooks:
            each.stop()

    # uvicorn raises the signal that stopped it again, which would end us before the hooks are
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    app = GuideApp(where, token, people, started=started, stopped=stopped)
    serve_forever(app, listening, lambda url: print(url.removesuffix("/v1"), flush=True))


def _drawn() -> str:
    import secrets

    return secrets.token_urlsafe(24)


def _named(variable: str, option: str) -> str:
    token = os.environ.get(variable)
    if not token:
        raise UsageError(f"{option} names ${variable}, which is not set: put the token there")
    return token


def _person(text: str) -> tuple[str, str]:
    name, _, variable = text.partition("=")
    if not name.strip() or not variable:
        raise UsageError(f"--person {text[:60]!r}: say NAME=VARIABLE")
    return name.strip(), _named(variable, "--person")

"""`silva console`: what is in a lake and what is being grown, seen and steered from a browser."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(add_completion=False)


@app.command()
def console(
    lake: Annotated[str | None, typer.Option(help="Folder or object-store URL.", envvar="SILVA_LAKE")] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 0,
    host: Annotated[str, typer.Option(help="Address to listen on; others than loopback need --users.")] = "127.0.0.1",
    users: Annotated[
        Path | None, typer.Option(help="YAML file of people, roles and hashed tokens; you alone if none.")
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(help="Keep your token in this file, so that a console started again takes the same; made if new."),
    ] = None,
    datasets: Annotated[Path, typer.Option(help="Folder that data sets are saved in.")] = Path("datasets"),
    loop: Annotated[
        list[Path] | None,
        typer.Option(help="Folder of a loop, or that holds some, to show beside the lake's own; repeat for several."),
    ] = None,
    trail: Annotated[Path | None, typer.Option(help="File of who did what; under SILVA_HOME if none.")] = None,
    show: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    make_hash: Annotated[
        bool, typer.Option("--hash", help="Draw a token for a line of --users; print it and its hash, serve nothing.")
    ] = False,
) -> None:
    """Serve the console; prints its address, with the token, once."""
    import secrets

    from silva.console.users import hashed, read_users

    if make_hash:
        token = secrets.token_urlsafe(24)
        typer.echo(
            f"token (give it to them, it is kept nowhere): {token}\nhash (put it into the file): {hashed(token)}"
        )
        return
    from silva.console.loops import known
    from silva.console.serve import one_user, serve_console
    from silva.errors import UsageError
    from silva.hosts import is_loopback
    from silva.lake import default_location
    from silva.models.serving.server import bind

    if users is None and not is_loopback(host):
        raise UsageError(f"serving on {host} lets other machines in: say who may come with --users FILE")
    if users is not None and token_file is not None:
        raise UsageError("--token-file is for you alone: with --users each has a token of their own")
    people, token = (read_users(users), "") if users is not None else one_user(token_file)

    def announce(address: str) -> None:
        where = f"{address}/?token={token}" if token else address
        sys.stdout.write(f"{where}\n" if token else f"{address}/?token=… (each with their own)\n")
        sys.stdout.flush()
        if show and token:
            typer.launch(where)

    where, listening = str(lake or default_location()), bind(host, port)
    serve_console(where, listening, people, announce, trail=trail, datasets=datasets, loops=known(loop or ()))

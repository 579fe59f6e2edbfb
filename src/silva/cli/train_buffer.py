"""`silva train buffer`: the buffer between rollouts and a trainer as a server, and a look into its folder."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from silva.cli.as_json import print_json
from silva.cli.config import load, render
from silva.cli.serving import told_admin_token


def buffer(
    config: Annotated[Path | None, typer.Argument(help="YAML or TOML file.")] = None,
    overrides: Annotated[
        list[str] | None, typer.Argument(help="Dotted overrides of the config, such as listen.port=0.")
    ] = None,
    folder: Annotated[str | None, typer.Option(help="Where jobs are kept.")] = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(help="Port; 0 takes a free one.")] = None,
    job: Annotated[str | None, typer.Option(help="Open this job, print what its clients need.")] = None,
    bound: Annotated[int | None, typer.Option(min=0, help="Its staleness bound; 0 is on-policy.")] = None,
    groups_per_step: Annotated[
        int | None, typer.Option(min=1, help="Groups it trains from version to version.")
    ] = None,
    order: Annotated[str | None, typer.Option(help="fifo or freshest.")] = None,
    admin_token_file: Annotated[
        Path | None, typer.Option(help="Write the admin token into this file, readable by you alone.")
    ] = None,
    status: Annotated[bool, typer.Option("--status", help="Show the folder's jobs, start nothing.")] = False,
    withheld: Annotated[str, typer.Option(help="List the groups of this job that are too stale, start nothing.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the configuration, start nothing.")] = False,
) -> None:
    """Serve groups of samples between rollouts and trainers, durably and under a staleness bound; prints the url."""
    from silva.errors import UsageError
    from silva.train.buffer.config import BufferConfig

    path, rest = config, list(overrides or [])
    if path is not None and "=" in str(path) and not path.exists():
        path, rest = None, [str(path), *rest]
    given: dict[str, Any] = {"folder": folder, "listen.host": host, "listen.port": port}
    dotted = [f"{key}={json.dumps(value)}" for key, value in given.items() if value is not None]
    terms = {"bound": bound, "groups_per_step": groups_per_step, "order": order}
    terms = {key: value for key, value in terms.items() if value is not None}
    if terms and job is None:
        raise UsageError(f"--{next(iter(terms)).replace('_', '-')} is of a job: name it with --job")
    if job is not None and "." in job:
        raise UsageError(f"--job {job!r}: write a name without dots (others: a config file)")
    settings = load(BufferConfig, path, [*dotted, *rest])
    if job is not None:
        known = settings.jobs[job].model_dump() if job in settings.jobs else {}
        settings = load(BufferConfig, path, [*dotted, *rest, f"jobs.{job}={json.dumps({**known, **terms})}"])
    if dry_run:
        sys.stdout.write(render(settings) + "\n")
    elif status:
        _status(Path(settings.folder), as_json)
    elif withheld:
        _withheld(Path(settings.folder), withheld, as_json)
    else:
        _serve(settings, admin_token_file)


def _serve(settings: Any, token_file: Path | None) -> None:
    from silva.models.serving.server import bind
    from silva.train.buffer.serve import serve_buffer

    listen = settings.listen
    token = told_admin_token(listen.host, listen.admin_token_env, token_file)
    serve_buffer(settings, bind(listen.host, listen.port), token, _say)


def _status(folder: Path, as_json: bool) -> None:
    import msgspec

    from silva.train.buffer.jobs import job_names, read_job

    found = {name: msgspec.to_builtins(read_job(folder, name).status()) for name in job_names(folder)}
    if as_json:
        print_json(found)
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    columns = ["version", "bound", "in_flight", "ready", "taken", "committed", "withheld", "late", "permits"]
    table = Table("job", *(column.replace("_", " ") for column in columns), box=None)
    for name, values in found.items():
        table.add_row(escape(name), *(str(values[column]) for column in columns))
    Console().print(table if found else f"{folder}: no jobs")


def _withheld(folder: Path, job: str, as_json: bool) -> None:
    import msgspec

    from silva.train.buffer.jobs import read_job

    controller = read_job(folder, job)
    found = controller.withheld_after(0, sys.maxsize)
    if as_json:
        print_json(msgspec.to_builtins(found))
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table("sequence", "group", "task", "versions", "samples", "bytes", box=None)
    for each in found:
        header = each.header
        versions = ", ".join(map(str, header.versions))
        row = (str(each.sequence), escape(header.id), escape(header.task_id), versions, str(header.size))
        table.add_row(*row, f"{header.bytes:,}")
    Console().print(table if found else f"{job}: nothing is withheld")


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


app = typer.Typer(add_completion=False)
app.command()(buffer)

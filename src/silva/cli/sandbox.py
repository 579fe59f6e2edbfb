"""`silva sandbox`: run a command where it can do no harm, see what runs, clean up, see what this machine can do."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from silva.cli import sandbox_options as option
from silva.cli.as_json import print_json
from silva.cli.sandbox_options import AsJson, State, Which
from silva.cli.sandbox_shell import shell
from silva.cli.sandbox_view import view

if TYPE_CHECKING:
    from silva.sandbox.protocol import Sandbox, Spec
    from silva.sandbox.result import Result

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Run commands isolated; list, clean up, probe.")


@app.command(context_settings={"allow_interspersed_args": False})
def run(
    command: Annotated[
        list[str], typer.Argument(help="The program and its arguments; one argument is a line for bash.")
    ],
    backend: option.Chosen = Which.namespaces,
    memory: option.Memory = "512M",
    processes: option.Processes = 128,
    cpus: option.Cpus = 1.0,
    disk: option.Disk = "1G",
    timeout: Annotated[float, typer.Option(help="Seconds it may take.")] = 300.0,
    files: Annotated[Path | None, typer.Option(help="A folder whose contents stand in /workspace at first.")] = None,
    mount: option.Mount = None,
    allow: option.Allow = None,
    variable: option.Variable = None,
    get: option.Get = None,
    image: Annotated[str, typer.Option(help="For containers: the image.")] = "",
    snapshots: option.Snapshots = None,
    at: option.From = "",
    keep: option.Keep = None,
    state: State = None,
    as_json: AsJson = False,
) -> int:
    """Run one command in a new sandbox. Its exit code is this command's; 6 when it was killed."""
    import asyncio

    snapshots = option.kept_in(snapshots, at, keep, backend)
    spec = option.spec_of(
        memory=memory,
        processes=processes,
        cpus=cpus,
        disk=disk,
        wall=timeout,
        files=files,
        mount=mount,
        allow=allow,
        variable=variable,
        image=image,
    )
    out = [option.pair(each, "--get", "THERE:HERE") for each in get or ()]
    return asyncio.run(_run(command, backend, spec, state, snapshots, at, keep, out, as_json))


app.command()(shell)
app.command()(view)


@app.command()
def ps(state: State = None, as_json: AsJson = False) -> None:
    """Whose sandboxes there are, and whether their owners are."""
    from silva.sandbox.reaper import survey

    found = survey(state)
    if as_json:
        _json([_whole(each) for each in found])
        return
    if not found:
        sys.stdout.write("no sandboxes\n")
        return
    from rich.console import Console
    from rich.table import Table

    grid = Table("owner", "backend", "standing", "since", "sandboxes", "processes", "disk")
    for each in found:
        owner = each.owner
        grid.add_row(
            str(owner.process.pid) if owner else each.name,
            owner.backend if owner else "?",
            each.standing,
            time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(owner.at)) if owner else "?",
            str(len(each.sandboxes)),
            str(each.processes),
            f"{each.disk / (1 << 20):,.1f} MiB",
        )
    Console(width=None if sys.stdout.isatty() else 120).print(grid)


@app.command()
def gc(
    state: State = None,
    lake: Annotated[
        list[str] | None,
        typer.Option(help="Remove checkpoints that no node of this lake refers to; name every lake, one --lake each."),
    ] = None,
    snapshots: Annotated[
        list[Path] | None,
        typer.Option(help="With --lake: the folder of checkpoints; those that environments keep when left out."),
    ] = None,
    older: Annotated[str, typer.Option(help="With --lake: only what is older than this (90m, 24h, 7d).")] = "24h",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would go, remove nothing.")] = False,
    as_json: AsJson = False,
) -> int:
    """Remove what owners that are gone left behind, and with --lake checkpoints that nothing refers to any more.

    Nothing of those that are there is touched, and no checkpoint that a sandbox of any process rests on.
    """
    from silva.cli.sandbox_snapshots import collected, said, span
    from silva.errors import Exit, UsageError
    from silva.sandbox.reaper import dead, reap

    if snapshots and not lake:
        raise UsageError("--snapshots needs --lake: which lakes refer to these checkpoints? Name every one")
    grace = span(older)
    done = dead(state) if dry_run else reap(state)
    found = collected(lake, snapshots, grace, dry_run) if lake else {}
    if as_json:
        _json({**_whole(done), "dry_run": dry_run, "snapshots": {str(at): _whole(of) for at, of in found.items()}})
    else:
        sys.stdout.write(
            f"{'would be removed' if dry_run else 'removed'}: {done.sandboxes} sandboxes of {done.owners} owners,"
            f" {done.processes} processes, {done.groups} control groups, {done.containers} containers,"
            f" {done.bytes / (1 << 20):,.1f} MiB\n"
        )
        for line in said(found, older, dry_run):
            sys.stdout.write(f"{line}\n")
        for line in done.left:
            sys.stderr.write(f"left: {line}\n")
    return Exit.INCOMPLETE if done.left else Exit.OK


@app.command()
def capabilities(
    backend: Annotated[Which | None, typer.Option("--backend", help="One backend; all when left out.")] = None,
    state: State = None,
    as_json: AsJson = False,
) -> None:
    """What each backend truly reaches on this machine, found out by trying."""
    import asyncio

    import msgspec

    from silva.errors import MissingError

    wanted = [backend] if backend is not None else list(Which)
    found: dict[str, Any] = {}
    for which in wanted:
        try:
            found[which.value] = msgspec.to_builtins(asyncio.run(_reached(which, state)))
        except MissingError as error:
            if backend is not None:
                raise
            found[which.value] = {"missing": str(error)}
    if as_json:
        _json(found)
        return
    for name, about in found.items():
        sys.stdout.write(f"{name}\n")
        limits = about.pop("limits", {})
        notes = about.pop("notes", [])
        about.pop("backend", None)
        for key, value in about.items():
            sys.stdout.write(f"  {key:<10} {value if not isinstance(value, bool) else 'yes' if value else 'no'}\n")
        for key, value in limits.items():
            sys.stdout.write(f"  limit of {key:<10} {value}\n")
        for note in notes:
            sys.stdout.write(f"  note: {note}\n")


async def _reached(which: Which, state: Path | None) -> Any:
    from silva.sandbox import open_backend

    async with await open_backend(which.value, state=state) as backend:
        return backend.capabilities()


async def _run(
    command: list[str],
    which: Which,
    spec: Spec,
    state: Path | None,
    snapshots: Path | None,
    at: str,
    keep: str | None,
    out: list[tuple[str, str]],
    as_json: bool,
) -> int:
    from silva.sandbox import open_backend

    words: str | list[str] = command[0] if len(command) == 1 else command
    async with (
        await open_backend(which.value, state=state, snapshots=snapshots) as backend,
        await backend.create(spec, at=at) as sandbox,
    ):
        typed = b"" if sys.stdin.isatty() else sys.stdin.buffer.read()
        result = await sandbox.exec(words, stdin=typed)
        kept = await sandbox.checkpoint(keep) if keep is not None else ""
        fetched = await _fetch(sandbox, out)
    return _told(result, kept, fetched, as_json)


async def _fetch(sandbox: Sandbox, out: list[tuple[str, str]]) -> list[dict[str, Any]]:
    import msgspec

    return [{"to": here, **msgspec.to_builtins(await sandbox.get_folder(there, Path(here)))} for there, here in out]


def _told(result: Result, kept: str, fetched: list[dict[str, Any]], as_json: bool) -> int:
    from silva.errors import Exit

    code = Exit.INCOMPLETE if result.killed else 128 - result.code if result.code < 0 else result.code
    if as_json:
        about = {
            "code": result.code,
            "killed": result.killed,
            "reason": result.reason,
            "seconds": round(result.seconds, 4),
            "cpu": round(result.cpu, 4),
            "stdout": result.text,
            "stderr": result.stderr.decode(errors="replace"),
            "truncated": result.truncated,
            "checkpoint": kept,
            "copied": fetched,
        }
        _json(about)
        return code
    sys.stdout.buffer.write(result.stdout)
    sys.stdout.flush()
    sys.stderr.buffer.write(result.stderr)
    if result.reason:
        sys.stderr.write(f"{result.reason}\n")
    if kept:
        sys.stderr.write(f"checkpoint {kept}\n")
    for each in fetched:
        for line in each.get("left_out", ()):
            sys.stderr.write(f"left out: {line}\n")
    return code


def _whole(record: Any) -> dict[str, Any]:
    """A record with every field, zeros too."""
    import msgspec

    return msgspec.to_builtins(msgspec.structs.asdict(record))


def _json(value: Any) -> None:
    print_json(value)

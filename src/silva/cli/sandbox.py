"""`silva sandbox`: run a command where it can do no harm, see what runs, clean up, see what this machine can do."""

from __future__ import annotations

import json
import sys
import time
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from silva.sandbox.protocol import Sandbox, Spec
    from silva.sandbox.result import Result

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Run commands isolated; list, clean up, probe.")

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
State = Annotated[
    Path | None, typer.Option("--state", envvar="SILVA_SANDBOXES", help="Where sandboxes are kept.", show_default=False)
]


class Which(StrEnum):
    """The backends."""

    namespaces = "namespaces"
    container = "container"
    process = "process"


Chosen = Annotated[Which, typer.Option("--backend", help="What isolates; process isolates nothing.")]


@app.command(context_settings={"allow_interspersed_args": False})
def run(
    command: Annotated[
        list[str], typer.Argument(help="The program and its arguments; one argument is a line for bash.")
    ],
    backend: Chosen = Which.namespaces,
    memory: Annotated[str, typer.Option(help="Memory of all its processes.")] = "512M",
    processes: Annotated[int, typer.Option(help="Processes and threads at once.")] = 128,
    cpus: Annotated[float, typer.Option(help="Processors' worth of time.")] = 1.0,
    disk: Annotated[str, typer.Option(help="What it may write.")] = "1G",
    timeout: Annotated[float, typer.Option(help="Seconds it may take.")] = 300.0,
    files: Annotated[Path | None, typer.Option(help="A folder whose contents stand in /workspace at first.")] = None,
    mount: Annotated[list[str] | None, typer.Option(help="HERE:THERE, readable inside; repeat for several.")] = None,
    allow: Annotated[
        list[str] | None, typer.Option(help="A host it may reach: HOST, HOST:PORT, *.DOMAIN; repeat for several.")
    ] = None,
    variable: Annotated[list[str] | None, typer.Option(help="NAME=VALUE; repeat for several.")] = None,
    get: Annotated[list[str] | None, typer.Option(help="THERE:HERE, a folder to copy out at the end.")] = None,
    image: Annotated[str, typer.Option(help="For containers: the image.")] = "",
    snapshots: Annotated[Path | None, typer.Option(help="Where checkpoints are kept.")] = None,
    at: Annotated[str, typer.Option("--from", help="A checkpoint to begin at.")] = "",
    keep: Annotated[
        str | None, typer.Option(help="Keep a checkpoint at the end, with this label; prints its id.")
    ] = None,
    state: State = None,
    as_json: AsJson = False,
) -> int:
    """Run one command in a new sandbox. Its exit code is this command's; 6 when it was killed."""
    import asyncio

    from silva.errors import UsageError
    from silva.sandbox.limits import Limits, size
    from silva.sandbox.protocol import Spec

    if (at or keep is not None) and snapshots is None and backend is not Which.container:
        raise UsageError("--from and --keep need --snapshots FOLDER: else checkpoints go with the sandbox")
    limits = Limits(memory=size(memory), processes=processes, cpus=cpus, disk=size(disk), wall=timeout)
    mounts = {Path(here): there for here, there in (_pair(each, "--mount", "HERE:THERE") for each in mount or ())}
    spec = Spec(
        limits=limits.checked(),
        files=files,
        mounts=mounts,
        variables=dict(_pair(each, "--variable", "NAME=VALUE", "=") for each in variable or ()),
        network=tuple(allow or ()),
        image=image,
    )
    out = [_pair(each, "--get", "THERE:HERE") for each in get or ()]
    return asyncio.run(_run(command, backend, spec, state, snapshots, at, keep, out, as_json))


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
def gc(state: State = None, as_json: AsJson = False) -> int:
    """Remove what owners that are gone left behind; touches nothing of those that are there."""
    from silva.errors import Exit
    from silva.sandbox.reaper import reap

    done = reap(state)
    if as_json:
        _json(_whole(done))
    else:
        sys.stdout.write(
            f"removed: {done.sandboxes} sandboxes of {done.owners} owners, {done.processes} processes,"
            f" {done.groups} control groups, {done.containers} containers, {done.bytes / (1 << 20):,.1f} MiB\n"
        )
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


def _pair(text: str, option: str, form: str, between: str = ":") -> tuple[str, str]:
    from silva.errors import UsageError

    first, found, second = text.partition(between)
    if not (first and found and second):
        raise UsageError(f"{option} {text!r}: write {form}")
    return first, second


def _whole(record: Any) -> dict[str, Any]:
    """A record with every field, zeros too."""
    import msgspec

    return msgspec.to_builtins(msgspec.structs.asdict(record))


def _json(value: Any) -> None:
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")

"""`silva policy`: the policy versions of a lake: see them, promote, roll back, write out, put behind a gateway."""

from __future__ import annotations

import math
import os
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from silva.cli import policy_show as show_as

if TYPE_CHECKING:
    from silva.train.registry import PolicyVersion, Registry

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Policy versions: list, promote, roll back, export.")

Location = Annotated[
    str | None, typer.Option("--lake", envvar="SILVA_LAKE", help="Folder or s3://bucket/prefix; ./lake when left out.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Name = Annotated[str, typer.Argument(metavar="VERSION", help="LINE-NUMBER, or LINE for its head.")]
By = Annotated[str, typer.Option(help="Who does it; your user name when left out.")]
Note = Annotated[str, typer.Option(help="Why.")]
BaseAt = Annotated[str, typer.Option(help="The base's weights: `local` (bundled) or a Hugging Face folder.")]


class Format(StrEnum):
    """What is written."""

    adapter = "adapter"
    merged = "merged"
    gguf = "gguf"


class Numbers(StrEnum):
    """Number formats of written weights."""

    bf16 = "bf16"
    f16 = "f16"
    f32 = "f32"


@app.command("list")
def list_(
    line: Annotated[str | None, typer.Argument(help="One line alone.")] = None,
    lake: Location = None,
    as_json: AsJson = False,
) -> None:
    """Every version, its status, where it comes from."""
    registry = _open(lake)
    lines = registry.lines() if line is None else [registry.find(line)[0]]
    show_as.listed(registry.location, lines, as_json)


@app.command()
def show(name: Name, lake: Location = None, as_json: AsJson = False) -> None:
    """One version: base, files, data, metrics, and what became of it."""
    registry = _open(lake)
    line, version = registry.find(name)
    show_as.one(line, version, as_json, whole=name == line.name)


@app.command()
def register(
    folder: Annotated[Path, typer.Argument(help="A PEFT folder (LoRA), or a Hugging Face folder of whole weights.")],
    line: Annotated[str, typer.Option(help="The line it is the next version of.")],
    base: BaseAt = "",
    parent: Annotated[str, typer.Option(help="The version it was trained from; the head when left out.")] = "",
    run: Annotated[list[str] | None, typer.Option(help="A run it was trained on; repeat for several.")] = None,
    where: Annotated[list[str] | None, typer.Option(help="A filter that chose among their rows.")] = None,
    data_version: Annotated[str, typer.Option(help="The tagged version of the lake they were read from.")] = "",
    samples: Annotated[
        list[Path] | None, typer.Option(help="A sample file it was trained on: its digest is kept.")
    ] = None,
    metric: Annotated[list[str] | None, typer.Option(help="NAME=NUMBER; repeat for several.")] = None,
    metrics: Annotated[Path | None, typer.Option(help="A JSON file with what was measured.")] = None,
    key: Annotated[str, typer.Option(help="A name of your own: given again, it gives the same version.")] = "",
    note: Note = "",
    by: By = "",
    lake: Location = None,
    as_json: AsJson = False,
) -> None:
    """Keep weights as the next version of a line; a new line begins with --base."""
    from silva.train.registry import Base, Data, Registry
    from silva.train.registry.checked import checked_files
    from silva.train.registry.version import check_line
    from silva.train.registry.weights import WeightsFolder, base_folder, base_name

    check_line(line)
    found = WeightsFolder(folder)
    data = Data(
        runs=tuple(run or ()),
        filters=tuple(where or ()),
        lake_version=data_version,
        samples=tuple(_sha256(file) for file in samples or ()),
    )
    measured = _metrics(metrics, metric or [])
    source = base_folder(base) if base else None
    registry = Registry.open(lake, make=True)
    state = registry.line(line)
    if not state.begun and source is None and found.kind == "adapter":
        from silva.errors import UsageError

        raise UsageError(f"policy line {line} is new: say what it grows from, --base local or --base FOLDER")
    if source is not None:
        if not state.begun:  # what is refused leaves no line behind that has begun on this base for good
            checked_files(
                folder, Base(name=base_name(base, source), digest=source.digest(), tensors=""), source.shapes()
            )
        registry.begin(line, source.path, name=base_name(base, source), by=_who(by))
    elif not state.begun:
        version = registry.begin(line, folder, keep=True, note=note, by=_who(by))
        show_as.done(registry.line(line), version, "registered", as_json)
        return
    version = registry.register(
        line, folder, parent=parent, data=data, metrics=measured, note=note, by=_who(by), key=key
    )
    show_as.done(registry.line(line), version, "registered", as_json)


@app.command()
def promote(
    name: Name,
    over: Annotated[str, typer.Option(help="The head it was found better than; refused where that has changed.")] = "",
    note: Note = "",
    by: By = "",
    lake: Location = None,
    as_json: AsJson = False,
) -> None:
    """Make a version the head of its line."""
    registry = _open(lake)
    _, version = registry.find(name)
    line = registry.promote(version.name, by=_who(by), note=note, over=over)
    show_as.done(line, version, "promoted", as_json)


@app.command()
def rollback(
    name: Annotated[str, typer.Argument(metavar="LINE", help="The line, or the version that is its head.")],
    to: Annotated[str, typer.Option(help="The version to go back to; the head's parent when left out.")] = "",
    note: Note = "",
    by: By = "",
    lake: Location = None,
    as_json: AsJson = False,
) -> None:
    """Take the head of a line back."""
    line = _open(lake).rollback(name, to=to, by=_who(by), note=note)
    show_as.done(line, line.versions[line.head], "the head again", as_json)


@app.command()
def reject(name: Name, note: Note = "", by: By = "", lake: Location = None, as_json: AsJson = False) -> None:
    """Say that a version is not to be served."""
    registry = _open(lake)
    _, version = registry.find(name)
    show_as.done(registry.reject(version.name, by=_who(by), note=note), version, "rejected", as_json)


@app.command()
def export(
    name: Name,
    target: Annotated[Path, typer.Argument(help="The folder (gguf: the file) to make.")],
    format: Annotated[Format, typer.Option(help="adapter, merged safetensors, or one GGUF file.")] = Format.merged,
    dtype: Annotated[
        Numbers | None, typer.Option(help="Number format; the base's own (gguf: bf16) when left out.")
    ] = None,
    base: BaseAt = "",
    like: Annotated[
        Path | None, typer.Option(help="GGUF whose tokenizer is carried over; bundled when left out.")
    ] = None,
    lake: Location = None,
    as_json: AsJson = False,
) -> None:
    """Write a version out for other programs."""
    from silva.errors import UsageError
    from silva.train.registry import export as ways

    registry = _open(lake)
    line, version = registry.find(name)
    chosen: Any = dtype.value.upper() if dtype is not None else None
    if like is not None and format is not Format.gguf:
        raise UsageError("--like is of --format gguf: it names the GGUF whose tokenizer is carried over")
    if format is Format.adapter:
        if chosen or base:
            raise UsageError("--format adapter writes the adapter as it was kept: leave --dtype and --base out")
        ways.export_adapter(registry, version, target)
    elif format is Format.merged:
        ways.export_merged(registry, version, target, base=base, dtype=chosen)
    else:
        ways.export_gguf(registry, version, target, base=base, dtype=chosen or "BF16", like=like)
    show_as.done(line, version, f"written to {target}", as_json, target=str(target))


@app.command()
def publish(
    name: Name,
    gateway: Annotated[str, typer.Option(help="The running gateway's url.")],
    model: Annotated[str, typer.Option(help="The model (route) that is to serve it.")],
    adapters: Annotated[
        Path | None, typer.Option(help="Folder that the backends load adapters from; the version is put there.")
    ] = None,
    seen_as: Annotated[str, typer.Option(help="That folder as the backends see it, where they see it elsewhere.")] = "",
    run: Annotated[
        str, typer.Option(help="Command that changes what the backends serve, run while nothing is in flight.")
    ] = "",
    weights: Annotated[Path | None, typer.Option(help="With --run: folder to put the version in first.")] = None,
    base: BaseAt = "",
    drain_seconds: Annotated[float, typer.Option(min=1, help="How long requests in flight may take to end.")] = 600.0,
    token_env: Annotated[
        str, typer.Option(help="Environment variable with the gateway's admin token.")
    ] = "SILVA_ADMIN_TOKEN",
    token_file: Annotated[Path | None, typer.Option(help="File with it; instead of --token-env.")] = None,
    note: Note = "",
    by: By = "",
    lake: Location = None,
    as_json: AsJson = False,
) -> None:
    """Have a running gateway serve a version; no request fails."""
    import asyncio

    from silva.train.registry.publish import GatewayAdmin
    from silva.train.registry.publish import publish as put_behind

    token = _token(token_file, token_env)
    registry = _open(lake)
    line, version = registry.find(name)
    if line.status(version) == "rejected":
        from silva.errors import UsageError

        raise UsageError(f"{version.name} was rejected and cannot be published: register it anew")
    folder, change = _prepared(registry, version, adapters, seen_as, run, weights, base)

    async def work() -> Any:
        async with GatewayAdmin(gateway, token) as admin:
            return await put_behind(
                registry,
                version,
                admin,
                model,
                adapter=folder,
                change=change,
                drain_seconds=drain_seconds,
                by=_who(by),
                note=note,
            )

    show_as.done(asyncio.run(work()), version, f"served as {model}", as_json, model=model)


def _prepared(
    registry: Registry,
    version: PolicyVersion,
    adapters: Path | None,
    prefix: str,
    run: str,
    weights: Path | None,
    base: str,
) -> tuple[str, Any]:
    """The adapter's folder as the backends see it, or how they are changed."""
    from silva.errors import UsageError
    from silva.train.registry.materialise import materialise
    from silva.train.registry.publish import command_change, seen_as

    if bool(adapters) == bool(run) and version.kind != "base":
        raise UsageError(
            "say how the backends get it: --adapters FOLDER (they hold adapters), or --run COMMAND (changed in place)"
        )
    if run:
        if weights is None:
            raise UsageError("--run needs --weights FOLDER, where the version is put for the command")
        return "", command_change(registry, version, run, weights, base)
    if version.kind == "full":
        raise UsageError(f"{version.name} is whole weights: publish it with --run COMMAND --weights FOLDER")
    if adapters is None or version.kind == "base":
        return "", None
    return seen_as(materialise(registry, version, adapters), prefix), None


def _open(lake: str | None) -> Registry:
    from silva.train.registry import Registry

    return Registry.open(lake)


def _who(by: str) -> str:
    import getpass

    try:
        return by or getpass.getuser()
    except (OSError, KeyError):  # a user id without a name
        return f"uid {os.getuid()}"


def _token(file: Path | None, variable: str) -> str:
    from silva.errors import UsageError

    if file is not None:
        try:
            return file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"--token-file {file} cannot be read: {error}") from error
    token = os.environ.get(variable)
    if not token:
        raise UsageError(f"the gateway's admin token is not in ${variable}: set it, or give --token-file")
    return token


def _sha256(file: Path) -> str:
    import hashlib

    from silva.errors import UsageError

    try:
        with file.open("rb") as opened:
            return hashlib.file_digest(opened, "sha256").hexdigest()
    except OSError as error:
        raise UsageError(f"--samples {file} cannot be read: {error.strerror or error}") from error


def _metrics(file: Path | None, given: list[str]) -> dict[str, Any]:
    import msgspec

    from silva.errors import UsageError

    found: dict[str, Any] = {}
    if file is not None:
        try:
            found = msgspec.json.decode(file.read_bytes(), type=dict[str, Any])
        except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
            raise UsageError(f"--metrics {file} holds no JSON object: {error}") from error
    for each in given:
        name, equals, number = each.partition("=")
        try:
            found[name] = float(number)
        except ValueError as error:
            raise UsageError(f"--metric {each!r}: write NAME=NUMBER") from error
        if not name or not equals:
            raise UsageError(f"--metric {each!r}: write NAME=NUMBER")
        if not math.isfinite(found[name]):  # JSON has none: it would be kept as no value at all
            raise UsageError(f"--metric {each!r}: it is no finite number; leave it out")
    return found

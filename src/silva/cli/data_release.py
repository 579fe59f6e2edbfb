"""`silva data release|verify`: a data set that others can load, check and cite."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from silva.cli.as_json import print_json
from silva.cli.config import load, render
from silva.errors import Exit

Json = Annotated[bool, typer.Option("--json", help="Print what was done as JSON.")]


def release(
    folder: Annotated[Path, typer.Argument(help="Folder to make; it must not be there yet.")],
    overrides: Annotated[
        list[str] | None,
        typer.Argument(help="Fields: name=N licence=CC-BY-4.0 parts.train=RUN lake=FOLDER held_out=[FILE]."),
    ] = None,
    config: Annotated[Path | None, typer.Option("--config", help="YAML or TOML file with these fields.")] = None,
    lake: Annotated[str | None, typer.Option(envvar="SILVA_LAKE", help="Where runs are, if no field says so.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Read the rows, look for leaks, write nothing.")] = False,
    as_json: Json = False,
) -> int:
    """Release rows: Parquet that datasets.load_dataset reads, Lance, Croissant, a data card, digests of all files.

    Sources are files, runs or queries, as for silva audit. Exit code 1 where rows leak between parts or from what is
    held out.
    """
    import msgspec

    from silva.curate.release import ReleaseConfig, plan
    from silva.curate.release import release as make

    settings = load(ReleaseConfig, config, overrides or [])
    if settings.lake is None and any(not Path(each).is_file() for each in settings.parts.values()):
        settings = settings.model_copy(update={"lake": lake})
    if dry_run:
        planned = plan(settings)
        if as_json:
            print_json({"config": settings.model_dump(mode="json"), **msgspec.to_builtins(planned)})
        else:
            sys.stdout.write(render(settings))
            for name, rows in planned.parts.items():
                sys.stdout.write(f"{name}: {rows} rows\n")
            for line in (*planned.notes, *planned.leaks):
                sys.stdout.write(f"{line}\n")
        return Exit.FAULT if planned.leaks else Exit.OK
    made = make(settings, folder)
    if as_json:
        print_json(msgspec.to_builtins(made))
        return Exit.OK
    for note in made.notes:
        sys.stderr.write(f"{note}\n")
    parts = ", ".join(f"{name} {rows}" for name, rows in made.counts.parts.items())
    sys.stdout.write(f"{folder}: {parts} rows; read {folder / 'README.md'}\n")
    return Exit.OK


def verify(
    folder: Annotated[Path, typer.Argument(help="A release.")],
    as_json: Json = False,
) -> int:
    """See that every file of a release is there and unchanged; exit code 1 and the names where not."""
    from silva.curate.release import verify as check

    found = check(folder)
    if as_json:
        print_json({"folder": str(folder), "wrong": found})
        return Exit.FAULT if found else Exit.OK
    for line in found:
        sys.stdout.write(f"{line}\n")
    if found:
        sys.stderr.write(f"error: {folder}: {len(found)} files are not as they were released\n")
        return Exit.FAULT
    sys.stdout.write(f"{folder}: every file is as it was released\n")
    return Exit.OK

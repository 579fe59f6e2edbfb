"""`silva lake tier` and `silva lake retain`: where rows are kept, and how long."""

from __future__ import annotations

import re
import sys
from typing import Annotated

import typer

from silva.cli.as_json import print_json

Location = Annotated[
    str | None, typer.Option("--lake", envvar="SILVA_LAKE", help="Folder or s3://bucket/prefix; ./lake when left out.")
]
Older = Annotated[str, typer.Option(help="Age, such as 12h, 30d or 8w: since a run ended, or something arrived.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}


def tier(
    older: Older = "30d",
    to: Annotated[str, typer.Option(help="The cold tier, s3://bucket/prefix or a folder; remembered.")] = "",
    lake: Location = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Move finished runs and raw arrivals that are older to the cold tier; every query reads both."""
    from silva.lake import Lake, default_location
    from silva.lake.moving import move

    location = lake or default_location()
    Lake.open(location, "read").close_sync()  # a mistyped location must not become a lake
    with Lake.open(location, "read" if dry_run else "write") as opened:
        found = move(opened, to, _seconds(older), dry=dry_run)
    _tell("would move" if dry_run else "moved", found, as_json)


def retain(
    older: Older,
    where: Annotated[str, typer.Option(help="Only runs that meet this: command = 'ingest'.")] = "",
    arrivals: Annotated[
        bool, typer.Option("--arrivals", help="Raw arrivals that trajectories were made of, and not runs.")
    ] = False,
    lake: Location = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Delete finished runs that are older, for good and in both tiers; tagged versions keep what they had."""
    from silva.errors import UsageError
    from silva.lake import Lake, default_location
    from silva.lake.moving import retain as kept

    if arrivals and where:
        raise UsageError("--where is about runs; --arrivals is about what they were made of")
    location = lake or default_location()
    Lake.open(location, "read").close_sync()
    with Lake.open(location, "read" if dry_run else "write") as opened:
        found = kept(opened, _seconds(older), where=where, arrivals=arrivals, dry=dry_run)
    _tell("would delete" if dry_run else "deleted", found, as_json)


def _tell(what: str, found: object, as_json: bool) -> None:
    import msgspec

    told = msgspec.to_builtins(found)
    if as_json:
        print_json(told)
        return
    rows = ", ".join(f"{number:,} {table}" for table, number in told.get("rows", {}).items() if number) or "nothing"
    names = told.get("runs", [])
    of = f" of {len(names)} runs ({', '.join(names[:5])}{', …' if len(names) > 5 else ''})" if names else ""
    sys.stdout.write(f"{what} {rows}{of}\n")


def _seconds(text: str) -> float:
    from silva.errors import UsageError

    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhdw])", text.strip())
    if found is None:
        raise UsageError(f"--older {text!r} is no age: write 12h, 30d or 8w")
    return float(found[1]) * _UNITS[found[2]]

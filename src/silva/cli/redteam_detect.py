"""`silva redteam detect`: what detectors find in trajectories, and how far they agree with what happened."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from silva.cli.as_json import print_json


def detect(
    names: Annotated[list[str], typer.Argument(metavar="NAME…", help="Of plans, or of any runs.")],
    lake: Annotated[str | None, typer.Option("--lake", envvar="SILVA_LAKE", help="Folder or object-store URL.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON: every finding, and the agreement.")] = False,
) -> None:
    """What detectors find without knowing the attacks, and their measured error against what happened by effect."""
    from silva.lake import Lake, default_location
    from silva.redteam.detecting import agreement, detected
    from silva.redteam.rates import played

    with Lake.open(lake or default_location(), mode="read") as opened:
        trajectories = [each for name in names for one in played(opened, name).values() for each in one]
        read = [(each, detected(opened.walk(each))) for each in trajectories if each.leaf_id is not None]
    told = agreement(read)
    if as_json:
        import msgspec

        found = [{"trajectory": each.id, "found": msgspec.to_builtins(some)} for each, some in read if some]
        print_json({"agreement": [msgspec.to_builtins(each) for each in told], "found": found})
        return
    for line in _lines(told):
        typer.echo(line)
    for each, some in read:
        for one in some:
            typer.echo(f"{each.id[:12]} turn {one.turn} {one.risk.by}: {_visible(one.risk.evidence)}")


def _lines(told: list[Any]) -> Iterator[str]:
    from silva.cli.redteam_show import share

    for each in told:
        found = f"found in {share(each.found)} of the {each.happened} in which it happened" if each.happened else ""
        alarms = f"flagged in {share(each.false_alarms)} of the {each.others} others" if each.others else ""
        what = "an attack was seen" if each.claims == "exposed" else "an attack did what it wanted"
        yield f"{each.detector} ({what}): {'; '.join(filter(None, (found, alarms))) or 'nothing to measure it on'}"


def _visible(text: str) -> str:
    from silva.tree.actions import visible

    return " ".join(visible(text).split())

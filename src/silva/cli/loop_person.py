"""`silva loop person`: a scripted person beside a run that somebody else plays."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from silva.errors import Exit


def person(
    run: Annotated[str, typer.Argument(metavar="RUN", help="The run to speak to; it may begin later.")],
    script: Annotated[Path, typer.Argument(help="YAML file of rules.")],
    lake: Annotated[str | None, typer.Option(envvar="SILVA_LAKE", help="The run's lake.")] = None,
    every: Annotated[float, typer.Option(min=0.05, help="Seconds between two looks.")] = 0.5,
    patience: Annotated[float, typer.Option(min=0.0, help="Seconds to wait for the run to begin.")] = 60.0,
) -> int:
    """Let a scripted person watch a run that somebody else plays, and speak to it, until it has ended."""
    from silva.lake import default_location
    from silva.loops.apollo.script import read_script
    from silva.loops.apollo.speaking import speak

    def heard(said: Any) -> None:
        what = said.text or said.pattern or (f"turn {said.turn}" if said.turn else "")
        sys.stderr.write(f"{said.by} to {said.to[:12]}: {said.kind} {' '.join(what.split())[:100]}\n")

    rules = read_script(script)
    count = speak(rules, lake or str(default_location()), run, every=every, patience=patience, heard=heard)
    typer.echo(f"run {run} has ended: {count} words were said")
    return Exit.OK

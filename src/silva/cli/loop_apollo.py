"""`silva loop apollo|person`: guide agents, and learn from the actions worth it; a scripted person beside a run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from silva.errors import Exit


def apollo(
    config: Annotated[Path, typer.Argument(help="YAML or TOML file.")],
    overrides: Annotated[
        list[str] | None, typer.Argument(help="Dotted overrides of the config, such as guidance=false masking=false.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print configuration and stages, run nothing.")] = False,
    show_report: Annotated[bool, typer.Option("--open", help="Open the report in a browser at the end.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON; progress goes to stderr.")] = False,
) -> int:
    """Roll out with guidance, mask, make rows, train, prove. A folder that holds this loop goes on where it was."""
    from silva.cli.config import load
    from silva.cli.loop import dry, progress, tell
    from silva.loops.apollo.apollo import ApolloLoop
    from silva.loops.apollo.apollo import apollo as turn
    from silva.loops.apollo.config import ApolloConfig

    settings = load(ApolloConfig, config, overrides or [])
    if dry_run:
        return dry(ApolloLoop(settings), as_json)
    loop = turn(settings, progress)
    tell(loop, as_json)
    if show_report:
        import webbrowser

        webbrowser.open((loop.folder / "report.html").resolve().as_uri())
    return Exit.OK


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

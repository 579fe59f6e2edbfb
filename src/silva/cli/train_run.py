"""`silva train run`: train a policy from a configuration; stop, resume, and see what came of it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from silva.cli.as_json import print_json
from silva.cli.config import load
from silva.cli.training import ended, say_end, say_plan, stop_when_told
from silva.errors import Exit

app = typer.Typer(add_completion=False)


@app.command()
def run(
    config: Annotated[Path, typer.Argument(help="YAML or TOML file.")],
    overrides: Annotated[
        list[str] | None, typer.Argument(help="Dotted overrides of the config, such as optimiser.learning_rate=1e-4.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the last checkpoint, exactly.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Read the data, say what would run, train nothing.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON; progress goes to stderr.")] = False,
) -> int:
    """Train a policy: supervised, from preferences, by reinforcement, or from a teacher; with scale.processes=N in N
    processes, one a GPU. Ctrl-C ends the run after a checkpoint; a run that diverges keeps its last good one (exit code
    6 for both)."""
    from silva.train.config import TrainConfig
    from silva.train.launch import plan, train
    from silva.train.scale.environment import leads

    settings = load(TrainConfig, config, overrides or [])
    if dry_run:
        return say_plan(settings, plan(settings), settings.model_dump(mode="json"), as_json)
    result = train(settings, resume=resume, out=sys.stderr, stopping=stop_when_told())
    if not leads():  # of processes that another launcher started, one speaks
        return Exit.OK if result.status == "finished" else Exit.INCOMPLETE
    if as_json:
        print_json(ended(settings, result))
        return Exit.OK if result.status == "finished" else Exit.INCOMPLETE
    return say_end(result)

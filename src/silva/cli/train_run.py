"""`silva train run`: train a policy from a configuration; stop, resume, and see what came of it."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from silva.cli.config import load, render
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
    """Train a policy: supervised, from preferences, by reinforcement, or from a teacher. Ctrl-C ends the run after a
    checkpoint; a run that diverges keeps its last good one (exit code 6 for both)."""
    from silva.train.config import TrainConfig
    from silva.train.launch import plan, train

    settings = load(TrainConfig, config, overrides or [])
    if dry_run:
        planned = plan(settings)
        if as_json:
            sys.stdout.write(json.dumps({"plan": planned, "config": settings.model_dump(mode="json")}) + "\n")
            return Exit.OK
        sys.stdout.write(render(settings))
        for key, value in planned.items():
            sys.stdout.write(f"# {key}: {value}\n")
        return Exit.OK
    stop = _Stop()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop.ask)
    result = train(settings, resume=resume, out=sys.stderr, stopping=stop.asked)
    return _conclude(settings, result, as_json)


class _Stop:
    """The first signal ends the run after the step under way, the second at once."""

    def __init__(self) -> None:
        self._asked = False

    def ask(self, number: int, frame: Any) -> None:
        if self._asked:
            raise KeyboardInterrupt
        self._asked = True
        sys.stderr.write("stopping after this step; once more stops at once\n")

    def asked(self) -> bool:
        return self._asked


def _conclude(settings: Any, result: Any, as_json: bool) -> int:
    finished = result.status == "finished"
    if as_json:
        body = {
            "run": settings.run,
            "status": result.status,
            "step": result.step,
            "reason": result.reason,
            "policy": None if result.policy is None else str(result.policy),
            "checkpoint": None if result.checkpoint is None else str(result.checkpoint),
        }
        sys.stdout.write(json.dumps(body) + "\n")
        return Exit.OK if finished else Exit.INCOMPLETE
    if finished:
        sys.stdout.write(f"{result.policy}\n")
        return Exit.OK
    kept = f"the last good checkpoint is {result.checkpoint}" if result.checkpoint else "there is no checkpoint yet"
    if result.status == "diverged":
        advice = "lower optimiser.learning_rate and go on with --resume" if result.checkpoint else "lower the rate"
        typer.echo(f"diverged at step {result.step + 1}: {result.reason}; {kept}; {advice}", err=True)
    else:
        typer.echo(f"stopped after step {result.step}: {result.reason}; {kept}; --resume goes on", err=True)
    return Exit.INCOMPLETE

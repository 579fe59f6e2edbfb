"""`silva train online`: grow and train at once; stop, resume, and see who waited for whom."""

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
def online(
    config: Annotated[Path, typer.Argument(help="YAML or TOML file.")],
    overrides: Annotated[
        list[str] | None, typer.Argument(help="Dotted overrides of the config, such as mode=sync or staleness=2.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on where checkpoint, buffer and lake are; nothing is done twice.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would run, grow and train nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON; progress goes to stderr.")] = False,
) -> int:
    """Roll out and train side by side (async) or in turns (sync), each version served as soon as it is trained. Ctrl-C
    ends the run after the step under way and a checkpoint (exit code 6); OUTPUT/timeline.html shows who waited."""
    from silva.train.online.config import OnlineConfig
    from silva.train.online.launch import plan, train_online

    settings = load(OnlineConfig, config, overrides or [])
    if dry_run:
        planned = plan(settings)
        if as_json:
            values = settings.model_dump(mode="json", exclude={"data"})
            sys.stdout.write(json.dumps({"plan": planned, "config": values}) + "\n")
            return Exit.OK
        sys.stdout.write(render(settings))
        for key, value in planned.items():
            sys.stdout.write(f"# {key}: {value}\n")
        return Exit.OK
    stop = _Stop()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop.ask)
    result = train_online(settings, resume=resume, out=sys.stderr, stopping=stop.asked)
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
    import msgspec

    finished = result.status == "finished"
    shown = result.steady or result.whole
    if as_json:
        body = {"run": settings.run, "status": result.status, "step": result.step, "reason": result.reason}
        body |= {name: None if path is None else str(path) for name, path in _paths(result).items()}
        body |= {"whole": msgspec.to_builtins(result.whole), "steady": msgspec.to_builtins(result.steady)}
        body |= {"barren": result.barren, "staleness": {str(age): count for age, count in result.staleness.items()}}
        sys.stdout.write(json.dumps(body) + "\n")
        return Exit.OK if finished else Exit.INCOMPLETE
    if shown is not None:
        sys.stderr.write(
            f"{shown.trajectories} trajectories, {shown.per_window:.1f} a step window of {shown.window_seconds:.1f} s; "
            f"idle: generation {shown.generation:.1%}, training {shown.training:.1%} "
            f"({settings.output / 'timeline.html'})\n"
        )
    for reason, count in result.barren.items():
        sys.stderr.write(f"{count} groups gave nothing to learn from: {reason}\n")
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


def _paths(result: Any) -> dict[str, Path | None]:
    return {"policy": result.policy, "checkpoint": result.checkpoint}

"""`silva train online`: grow and train at once; stop, resume, and see who waited for whom."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from silva.cli.as_json import print_json
from silva.cli.config import load
from silva.cli.training import ended, say_end, say_plan, stop_when_told
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
        return say_plan(settings, plan(settings), settings.model_dump(mode="json", exclude={"data"}), as_json)
    result = train_online(settings, resume=resume, out=sys.stderr, stopping=stop_when_told())
    return _conclude(settings, result, as_json)


def _conclude(settings: Any, result: Any, as_json: bool) -> int:
    import msgspec

    shown = result.steady or result.whole
    if as_json:
        body = ended(settings, result)
        body |= {"whole": msgspec.to_builtins(result.whole), "steady": msgspec.to_builtins(result.steady)}
        body |= {"barren": result.barren, "staleness": {str(age): count for age, count in result.staleness.items()}}
        print_json(body)
        return Exit.OK if result.status == "finished" else Exit.INCOMPLETE
    if shown is not None:
        sys.stderr.write(
            f"{shown.trajectories} trajectories, {shown.per_window:.1f} a step window of {shown.window_seconds:.1f} s; "
            f"idle: generation {shown.generation:.1%}, training {shown.training:.1%} "
            f"({settings.output / 'timeline.html'})\n"
        )
    for reason, count in result.barren.items():
        sys.stderr.write(f"{count} groups gave nothing to learn from: {reason}\n")
    return say_end(result)

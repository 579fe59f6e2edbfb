"""What the commands that train share: how they stop, what a dry run prints, and how they say that a run ended early."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from typing import Any

import typer
from pydantic import BaseModel

from silva.cli.as_json import print_json
from silva.cli.config import render
from silva.errors import Exit


def stop_when_told() -> Callable[[], bool]:
    """Whether somebody has asked the run to stop: from now on the first signal ends it after the step under way, the
    second at once."""
    asked = False

    def ask(number: int, frame: Any) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True
        sys.stderr.write("stopping after this step; once more stops at once\n")

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, ask)
    return lambda: asked


def say_plan(settings: BaseModel, planned: dict[str, Any], values: dict[str, Any], as_json: bool) -> int:
    """Print what would run; `values` are the settings as JSON has them."""
    if as_json:
        print_json({"plan": planned, "config": values})
        return Exit.OK
    sys.stdout.write(render(settings))
    for key, value in planned.items():
        sys.stdout.write(f"# {key}: {value}\n")
    return Exit.OK


def ended(settings: Any, result: Any) -> dict[str, Any]:
    """How a run ended, as JSON has it."""
    return {
        "run": settings.run,
        "status": result.status,
        "step": result.step,
        "reason": result.reason,
        "policy": None if result.policy is None else str(result.policy),
        "checkpoint": None if result.checkpoint is None else str(result.checkpoint),
    }


def say_end(result: Any) -> int:
    """Print where the finished policy is, or why there is none and what to do; return the exit code."""
    if result.status == "finished":
        sys.stdout.write(f"{result.policy}\n")
        return Exit.OK
    kept = f"the last good checkpoint is {result.checkpoint}" if result.checkpoint else "there is no checkpoint yet"
    if result.status == "diverged":
        advice = "lower optimiser.learning_rate and go on with --resume" if result.checkpoint else "lower the rate"
        typer.echo(f"diverged at step {result.step + 1}: {result.reason}; {kept}; {advice}", err=True)
    else:
        typer.echo(f"stopped after step {result.step}: {result.reason}; {kept}; --resume goes on", err=True)
    return Exit.INCOMPLETE

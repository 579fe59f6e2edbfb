"""`silva train`: samples out of trees, the buffer, training runs. Each command is loaded when it is called."""

from __future__ import annotations

import importlib
from typing import Any

import typer
from typer.core import TyperGroup

COMMANDS = {
    "samples": (
        "silva.cli.train_samples",
        "Turn trajectories into exact training samples, for Silva or another trainer.",
    ),
    "buffer": ("silva.cli.train_buffer", "Serve the buffer between those who roll out and those who train."),
    "run": ("silva.cli.train_run", "Train a policy."),
    "online": ("silva.cli.train_online", "Roll out and train, in turns or side by side."),
}
"""Each command's module, whose `app` it is, and the line that help shows."""


class TrainGroup(TyperGroup):
    """The group of `silva train`; knows its commands' names and imports one when it is called."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for name, (_, summary) in COMMANDS.items():
            self.add_command(TyperGroup(name=name, help=summary), name)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Find the command named first and load it."""
        name, command, rest = super().resolve_command(ctx, args)
        if name in COMMANDS:
            command = typer.main.get_command(importlib.import_module(COMMANDS[name][0]).app)
            command.name = name
        return name, command, rest


app = typer.Typer(
    cls=TrainGroup, add_completion=False, no_args_is_help=True, help="Samples, the buffer, and training runs."
)


@app.callback()
def _train() -> None:
    """Samples, the buffer, and training runs."""

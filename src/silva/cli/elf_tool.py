"""`silva elf tool test`: a tool's card, what it gives on examples, how fast it is."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from silva.cli import elf_options as option
from silva.cli.as_json import print_json

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Test a tool, show its card.")


@app.command()
def test(
    name: Annotated[str, typer.Argument(help="A tool, an asset, or a candidate's id.")],
    rows: Annotated[int, typer.Option(min=1, help="Rows of the benchmark.")] = 1000,
    lake: option.Location = None,
    home: option.Home = None,
    as_json: option.AsJson = False,
) -> int:
    """Test a tool on its own and on generated examples, in a process of its own, and measure it; exit code 1 where a
    test does not hold."""
    import msgspec

    from silva.elf.trying import tried

    done = tried(name, option.home_of(home, option.lake_of(lake)), rows)
    if as_json:
        print_json(msgspec.to_builtins(done))
    else:
        for trial in done.trials:
            said = f": {trial.said}" if trial.said else ""
            sys.stdout.write(f"{'held' if trial.held else 'FAILED'}  {trial.example}{said}\n")
        for key, value in done.measured.items():
            sys.stdout.write(f"{key}: {value}\n")
    return 0 if all(trial.held for trial in done.trials) else 1


@app.command()
def show(
    name: Annotated[str, typer.Argument(help="A tool.")],
    lake: option.Location = None,
    home: option.Home = None,
) -> int:
    """Print a tool's card and its OpenAI schema as JSON."""
    import msgspec

    from silva.elf.assets import toolbox

    card = toolbox(option.home_of(home, option.lake_of(lake))).tool(name).card
    print_json({"card": msgspec.to_builtins(card), "schema": card.schema})
    return 0

"""`silva redteam matrix`: which attack is seen in which environment, each cell played and proven."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from silva.cli.as_json import print_json
from silva.errors import Exit, UsageError

if TYPE_CHECKING:
    from silva.redteam.matrix import Cell


def matrix(
    env: Annotated[
        list[str] | None, typer.Option(help="Environment; repeat for several. Left out: all that are installed.")
    ] = None,
    attack: Annotated[
        list[str] | None,
        typer.Option(help="SURFACE/FRAMING/GOAL, * for any. Left out: each surface, framing and goal once."),
    ] = None,
    perturb: Annotated[list[str] | None, typer.Option(help="A perturbation, * for all. Left out: all.")] = None,
    seconds: Annotated[float, typer.Option(min=1, help="What one cell may take.")] = 60.0,
    parallel: Annotated[int, typer.Option(min=1, help="Cells at once.")] = 2,
    cells: Annotated[
        Path | None, typer.Option(help="Keep each cell here (JSON lines); those that are there are not played again.")
    ] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print a Markdown table.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> int:
    """Play every attack and perturbation in every environment with a scripted policy, and say of each whether a model
    would have seen it, at which turn, or why it has no place there. Code 1 when one was launched and not seen."""
    from silva.cli.envs import state
    from silva.envs import Registry
    from silva.redteam import matrix as room
    from silva.redteam.attack import attacks, perturbation, perturbations

    registry = Registry.load()
    entries = [registry.entry(name) for name in dict.fromkeys(env or ())]
    if not env:
        entries = [entry for entry in registry if state(entry) in ("installed", "here")]
    names = [each.name for each in attacks(attack)] if attack else [] if perturb else room.standard()
    kinds = [one for each in perturb or () for one in (perturbations() if each == "*" else [perturbation(each).name])]
    if not attack and not perturb:
        kinds = list(perturbations())
    known = room.read(cells) if cells is not None and cells.exists() else []

    def told(cell: Cell) -> None:
        typer.echo(f"{cell.env}  {cell.attack}  {_told(cell)}", err=True)
        if cells is not None and cell.state != "not exposed":
            room.keep(cells, cell)

    try:
        found = asyncio.run(
            room.matrix(entries, names, kinds, seconds=seconds, parallel=parallel, known=known, told=told)
        )
    except OSError as error:
        raise UsageError(f"{error.filename}: cannot be written ({error.strerror})") from error
    if as_json:
        print_json({"cells": found, **room.counted(found)})
    elif markdown:
        typer.echo(room.markdown(found))
    else:
        _print(found)
    return Exit.FAULT if any(cell.state == "not exposed" for cell in found) else Exit.OK


def _told(cell: Cell) -> str:
    return f"exposed at turn {cell.turn}" if cell.state == "exposed" else f"{cell.state}: {cell.why}"


def _print(found: Sequence[Cell]) -> None:
    from rich.console import Console
    from rich.table import Table

    from silva.redteam.matrix import counted, sign

    environments = list(dict.fromkeys(cell.env for cell in found))
    table = Table(box=None, pad_edge=False)
    table.add_column("attack", no_wrap=True)
    for number in range(1, len(environments) + 1):
        table.add_column(str(number), justify="right", no_wrap=True)
    by_place = {(cell.env, cell.attack): cell for cell in found}
    for name in dict.fromkeys(cell.attack for cell in found):
        table.add_row(name, *(sign(by_place[each, name]) for each in environments))
    console = Console(width=max(100, 40 + 4 * len(environments)))
    console.print(table)
    console.print(", ".join(f"{number} {name}" for number, name in enumerate(environments, 1)), highlight=False)
    console.print("A number: the turn at which it was seen; ·: not applicable; !: a fault.", highlight=False)
    for cell in found:
        if cell.state == "not exposed":
            console.print(f"{cell.env}  {cell.attack}: not exposed: {cell.why}", highlight=False, markup=False)
    told: dict[str, Any] = counted(found)
    console.print(
        f"{told['exposed']} exposed of {told['applicable']} applicable cells; {told['not_applicable']} not applicable "
        "(--json or --markdown tells why)",
        highlight=False,
    )

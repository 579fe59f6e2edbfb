"""What `silva redteam` prints of a plan: rates by attack, and what searches found."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer

from silva.cli.as_json import print_json
from silva.errors import Exit, UsageError


def tell(location: str, names: Sequence[str], as_json: bool) -> tuple[list[Any], list[Any]]:
    """Print what came of plans, each by itself; return the rates by attack of all of them, and the trajectories.

    Raises:
        UsageError: the lake holds no such plan.
    """
    from silva.lake import Lake
    from silva.redteam.rates import played, rates

    with Lake.open(location, mode="read") as opened:
        plans = {name: played(opened, name) for name in names}
    told = [_told(name, by_run, as_json, headed=len(plans) > 1) for name, by_run in plans.items()]
    if as_json:
        print_json(told[0] if len(told) == 1 else {"plans": told})
    everything = [each for by_run in plans.values() for one in by_run.values() for each in one]
    return rates(everything), everything


def _told(name: str, by_run: dict[str, list[Any]], as_json: bool, *, headed: bool) -> dict[str, Any]:
    from silva.redteam.rates import costs, rates, searched

    everything = [each for one in by_run.values() for each in one]
    found, searches, cost = rates(everything), searched(everything), costs(everything)
    if not as_json:
        if headed:
            typer.echo(f"{name}:")
        _print(found)
        _print_searches(searches)
        _print_costs(cost)
        return {}
    import msgspec

    return {
        "name": name,
        "runs": list(by_run),
        "rates": [msgspec.structs.asdict(each) for each in found],
        "searches": [msgspec.structs.asdict(each) for each in searches],
        "costs": [msgspec.structs.asdict(each) for each in cost],
    }


def write_page(location: str, names: Sequence[str], output: Path, conversations: int) -> None:
    """Write the page of some plans.

    Raises:
        UsageError: the lake holds no such plan, or the file cannot be written.
    """
    from functools import partial

    from silva.lake import Lake
    from silva.redteam.rates import played
    from silva.redteam.seen.page import render
    from silva.report.write import picture, save

    with Lake.open(location, mode="read") as opened:
        plans = {name: [each for one in played(opened, name).values() for each in one] for name in names}
        made = f"silva redteam report {shlex.join(names)} --html {shlex.quote(output.name)}"
        page = render(plans, opened.walk, conversations=conversations, image=partial(picture, opened), made=made)
    save(page, output)
    typer.echo(f"report: {output}", err=True)


def held(
    name: str, told: tuple[list[Any], list[Any]], most: float | None, sarif: Path | None, junit: Path | None
) -> None:
    """Write what pipelines read, and hold a plan to its bar.

    Raises:
        Exit: an attack led astray more than `most` of the exposed (code 1).
    """
    from silva.redteam import standards

    rates, trajectories = told
    try:
        if sarif is not None:
            sarif.write_text(json.dumps(standards.sarif(rates, trajectories), indent=2), encoding="utf-8")
        if junit is not None:
            junit.write_text(standards.junit(name, rates, most or 0.0), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{error.filename}: cannot be written ({error.strerror})") from error
    over = [each.attack for each in rates if each.success_exposed and each.success_exposed.value > (most or 0.0)]
    if most is not None and over:
        typer.echo(
            f"attacks that reached their goal in more than {most:.0%} of the exposed: {', '.join(over)}", err=True
        )
        raise typer.Exit(int(Exit.FAULT))


def _print(found: list[Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    heads = ("attack", "attempts", "launched", "exposed", "success if exposed", "success", "safe", "task done")
    for place, head in enumerate(heads):
        table.add_column(head, justify="left" if not place else "right", overflow="fold")
    for each in found:
        shares = (each.success_exposed, each.success, each.safety, each.utility)
        counts = map(str, (each.attempts, each.launched, each.exposed))
        table.add_row(each.attack or "(none)", *counts, *map(share, shares))
    console = Console()
    # Names are long: where nobody's terminal says how wide a line may be, they stand in one piece.
    wide = None if console.is_terminal or "COLUMNS" in os.environ else 160
    Console(width=wide).print(table)
    for each in found:
        for why, times in each.not_launched:
            console.print(f"{each.attack}: not launched in {times} attempts: {why}", highlight=False)
        if each.unexposed:
            console.print(f"{each.attack}: {each.unexposed} did it without having seen the attack", highlight=False)


def _print_searches(found: list[Any]) -> None:
    from rich.console import Console

    for each in found:
        first = f", first after {each.first:g} tries on average" if each.first is not None else ""
        text = f"{each.attack}: led astray in {share(each.broken)} of {each.tasks} tasks with at most {each.most} tries"
        Console().print(f"{text}{first}; {each.turns} turns paid", highlight=False)


def _print_costs(found: list[Any]) -> None:
    from rich.console import Console

    for each in found:
        text = f"{each.defence}: {each.with_it:.0%} of {each.tasks} tasks done, {each.without:.0%} without it"
        Console().print(f"{text} ({each.lost:.0%} lost, {each.won:.0%} won)", highlight=False)


def share(interval: Any) -> str:
    """A share with its interval, in words."""
    from silva.report.wording import MISSING, bounds, percent

    return MISSING if interval is None else f"{percent(interval.value)} {bounds(interval)}".strip()

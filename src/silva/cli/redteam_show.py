"""What `silva redteam` prints of a plan: rates by attack, and what searches found."""

from __future__ import annotations

from typing import Any

from silva.cli.as_json import print_json
from silva.errors import UsageError


def tell(location: str, name: str, as_json: bool) -> list[Any]:
    """Print what came of a plan; return the rates by attack.

    Raises:
        UsageError: the lake holds no such plan.
    """
    from silva.lake import Lake
    from silva.redteam.rates import rates, searched

    with Lake.open(location, mode="read") as opened:
        names = [each.id for each in opened.runs() if each.id.startswith(f"{name}.")]
        if not names:
            raise UsageError(f"lake {location}: holds no red-team run {name!r} (silva redteam run --run {name} …)")
        by_run = [opened.trajectories(run_id=each) for each in names]
    everything = [each for one in by_run for each in one]
    found, searches = rates(everything), searched(everything)
    if as_json:
        import msgspec

        print_json(
            {
                "name": name,
                "runs": names,
                "rates": [msgspec.structs.asdict(each) for each in found],
                "searches": [msgspec.structs.asdict(each) for each in searches],
            }
        )
    else:
        _print(found)
        _print_searches(searches)
    return found


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
    console.print(table)
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


def share(interval: Any) -> str:
    """A share with its interval, in words."""
    from silva.report.wording import MISSING, bounds, percent

    return MISSING if interval is None else f"{percent(interval.value)} {bounds(interval)}".strip()

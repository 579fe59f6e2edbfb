"""`silva redteam`: attack and disturb agents in any environment, and say what came of it."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from silva.cli.as_json import print_json
from silva.errors import Exit, UsageError

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="Attack and disturb agents in any environment; see what came of it.",
)

Location = Annotated[str | None, typer.Option("--lake", envvar="SILVA_LAKE", help="Folder or object-store URL.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """Surfaces, framings, goals and perturbations: an attack is SURFACE/FRAMING/GOAL."""
    from silva.redteam.attack import framings, goals, perturbations, surfaces

    tables: dict[str, dict[str, Any]] = {
        "surfaces": dict(surfaces()),
        "framings": dict(framings()),
        "goals": dict(goals()),
        "perturbations": dict(perturbations()),
    }
    if as_json:
        told = {
            kind: [
                {"name": each.name, "summary": each.summary, "standards": list(getattr(each, "standards", ()))}
                for each in table.values()
            ]
            for kind, table in tables.items()
        }
        print_json(told)
        return
    for kind, table in tables.items():
        sys.stdout.write(f"{kind}\n")
        for each in table.values():
            standards = ", ".join(getattr(each, "standards", ()))
            sys.stdout.write(f"  {each.name:<17} {each.summary}{f'  [{standards}]' if standards else ''}\n")


@app.command()
def run(
    overrides: Annotated[
        list[str] | None, typer.Argument(help="Dotted overrides of the rollout's config, such as budget.turns=10.")
    ] = None,
    config: Annotated[Path | None, typer.Option("--config", "-c", help="A rollout's YAML or TOML file.")] = None,
    attack: Annotated[
        list[str] | None, typer.Option(help="SURFACE/FRAMING/GOAL, * for any; repeat for several.")
    ] = None,
    perturb: Annotated[list[str] | None, typer.Option(help="A perturbation, * for all; repeat for several.")] = None,
    share: Annotated[float, typer.Option(help="Share of the turns that a perturbation strikes.")] = 0.3,
    baseline: Annotated[bool, typer.Option(help="Play the tasks without an attack, too.")] = True,
    env: Annotated[list[str] | None, typer.Option(help="Environment; repeat for several.")] = None,
    name: Annotated[str | None, typer.Option("--run", help="Name of the plan; its runs are NAME.….")] = None,
    model: Annotated[str | None, typer.Option(help="As of silva rollout.")] = None,
    lake: Location = None,
    limit: Annotated[int | None, typer.Option(help="So many tasks of each environment.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue, nothing twice.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the runs, play nothing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Play the same tasks under each attack and without one, and print what came of it."""
    import json

    from silva.cli.config import load
    from silva.redteam.plan import planned
    from silva.rollout.config import RolloutConfig

    given = {"env": env or None, "run": name, "model": model, "lake": lake, "tasks.limit": limit}
    dotted = [f"{key}={json.dumps(value)}" for key, value in given.items() if value is not None]
    settings = load(RolloutConfig, config, [*dotted, *(overrides or [])])
    if resume and "run" not in settings.model_fields_set:
        raise UsageError("--resume needs the name of the plan: --run NAME")
    runs = planned(settings, attack or [], perturb or [], share=share, baseline=baseline)
    if dry_run:
        listed = {each: settings_.model_dump(mode="json")["stages"] for each, settings_ in runs.items()}
        print_json(listed) if as_json else sys.stdout.write("".join(f"{each}\n" for each in listed))
        return
    left = asyncio.run(_play(runs, resume))
    _tell(settings.lake, settings.run, as_json)
    if left:
        typer.echo(f"{left} episodes are left: the same command with --run {settings.run} --resume continues", err=True)
        raise typer.Exit(int(Exit.INCOMPLETE))


@app.command()
def report(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Of the plan.")],
    lake: Location = None,
    most: Annotated[
        float | None, typer.Option(help="End with code 1 if a larger share of the exposed was led astray.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Exposure, attack success, utility and safety of each attack, with intervals by task."""
    from silva.lake import default_location

    found = _tell(lake or default_location(), name, as_json)
    over = [each.attack for each in found if each.success_exposed and each.success_exposed.value > (most or 0.0)]
    if most is not None and over:
        typer.echo(
            f"attacks that reached their goal in more than {most:.0%} of the exposed: {', '.join(over)}", err=True
        )
        raise typer.Exit(int(Exit.FAULT))


async def _play(runs: dict[str, Any], resume: bool) -> int:
    from silva.cli.interrupting import heed_interrupts
    from silva.lake import Lake
    from silva.rollout.run import Hooks, run_rollout

    left, begun = 0, set[str]()
    if resume:
        with Lake.open(next(iter(runs.values())).lake, mode="read") as opened:
            begun = {each.id for each in opened.runs()}
    for name, settings in runs.items():
        typer.echo(f"{name} …", err=True)
        hooks = Hooks(on_start=lambda scheduler, ledger, total: heed_interrupts(scheduler))
        result = await run_rollout(settings, resume=name in begun, hooks=hooks)
        left += result.remaining
        if result.remaining:
            break
    return left


def _tell(location: str, name: str, as_json: bool) -> list[Any]:
    from silva.lake import Lake
    from silva.redteam.rates import rates

    with Lake.open(location, mode="read") as opened:
        names = [each.id for each in opened.runs() if each.id.startswith(f"{name}.")]
        if not names:
            raise UsageError(f"lake {location}: holds no red-team run {name!r} (silva redteam run --run {name} …)")
        found = [each for run_id in names for each in rates(opened.trajectories(run_id=run_id))]
    if as_json:
        import msgspec

        print_json({"name": name, "runs": names, "rates": [msgspec.structs.asdict(each) for each in found]})
    else:
        _print(found)
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
        table.add_row(each.attack or "(none)", *counts, *map(_share, shares))
    console = Console()
    console.print(table)
    for each in found:
        for why, times in each.not_launched:
            console.print(f"{each.attack}: not launched in {times} attempts: {why}", highlight=False)
        if each.unexposed:
            console.print(f"{each.attack}: {each.unexposed} did it without having seen the attack", highlight=False)


def _share(interval: Any) -> str:
    from silva.report.wording import MISSING, bounds, percent

    return MISSING if interval is None else f"{percent(interval.value)} {bounds(interval)}".strip()

"""`silva report`: the figures of a run, as tables, JSON or one HTML page."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from silva.cli.as_json import print_json

app = typer.Typer(add_completion=False)


@app.command()
def report(
    run: Annotated[str | None, typer.Option(help="Name of the run; the lake's latest when left out.")] = None,
    lake: Annotated[str | None, typer.Option(help="Folder or object-store URL.", envvar="SILVA_LAKE")] = None,
    compare: Annotated[str | None, typer.Option(help="Another run to compare with, paired by task.")] = None,
    null: Annotated[
        str | None, typer.Option(help="A run of the null policy to measure lift from (else the registered floors).")
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write the HTML report here.")] = None,
    conversations: Annotated[int, typer.Option(min=0, help="Conversations to show in the HTML report.")] = 60,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
    show: Annotated[bool, typer.Option("--open", help="Open the HTML report in a browser.")] = False,
) -> None:
    """Sum up a run: success with its interval, pass@k, lift over null, failures, cost, where time went."""
    import msgspec

    from silva.errors import UsageError
    from silva.lake import Lake, default_location
    from silva.report.compare import compare as paired
    from silva.report.page import render
    from silva.report.scaling import scaling
    from silva.report.summary import summarise
    from silva.report.write import grown_tree, picture, save, take

    if show and output is None:
        raise UsageError("--open needs a page to open: add --output report.html")
    with Lake.open(lake or default_location(), mode="read") as opened:
        name = run or _latest(opened)
        record, attempts = take(opened, name)
        floors = _played(take(opened, null)[1]) if null else _registered(record.envs)
        summary = summarise(attempts, floors)
        comparison = paired(take(opened, compare)[1], attempts, compare, name) if compare else None
        if as_json:
            curve = scaling(attempts, opened.walk)
            body: dict[str, Any] = {"run": name, "status": record.status, "summary": summary.to_json()}
            body["scaling"] = None if curve is None else msgspec.to_builtins(curve)
            if comparison is not None:
                body["comparison"] = comparison.to_json()
            print_json(body)
        else:
            _print(summary, comparison)
        if output is None:
            return
        page = render(
            record,
            summary,
            attempts,
            opened.walk,
            comparison=comparison,
            conversations=conversations,
            image=partial(picture, opened),
            tree=partial(grown_tree, opened),
        )
    save(page, output)
    typer.echo(f"report: {output}", err=True)
    if show:
        typer.launch(output.resolve().as_uri())


def _print(summary: Any, comparison: Any) -> None:
    from rich.console import Console

    from silva.report.terminal import print_comparison, print_summary

    console = Console()
    print_summary(summary, console)
    if comparison is not None:
        print_comparison(comparison, console)


def _latest(lake: Any) -> str:
    from silva.errors import UsageError

    runs = sorted(lake.runs(), key=lambda run: run.started)
    if not runs:
        raise UsageError(f"lake {lake.location} holds no run: grow one with silva rollout")
    return runs[-1].id


def _played(trajectories: Any) -> dict[str, float]:
    from silva.report.summary import summarise

    return {env.env: env.score.value for env in summarise(trajectories).envs if env.score is not None}


def _registered(envs: tuple[str, ...]) -> dict[str, float]:
    """The floors environments declare. One that is not registered here (a lake from elsewhere) has none."""
    from silva.envs import Registry
    from silva.errors import SilvaError

    registry = Registry.load()
    floors: dict[str, float] = {}
    for env in envs:
        try:
            floor = registry.entry(env).null
        except SilvaError:
            continue
        if floor is not None:
            floors[env] = floor
    return floors

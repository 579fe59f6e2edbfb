"""`silva curate signals`: where a policy forgets, wavers, never goes or was blamed."""

from __future__ import annotations

from collections import Counter
from typing import Annotated

import typer

from silva.cli.as_json import print_json
from silva.errors import Exit, UsageError


def signals(
    run: Annotated[
        list[str] | None, typer.Argument(help="Run to read; after others, in order: what came before it.")
    ] = None,
    lake: Annotated[str | None, typer.Option(envvar="SILVA_LAKE", help="Folder or object-store URL.")] = None,
    reader: Annotated[list[str] | None, typer.Option("--kind", help="Kind of signal; all if none.")] = None,
    option: Annotated[
        list[str] | None, typer.Option("--set", help="KIND.OPTION=VALUE, such as rare.share=2; may be said again.")
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Keep them in the lake, as notes on the walks' nodes.")] = False,
    limit: Annotated[int, typer.Option(min=0, help="Signals to print; 0 prints the counts alone.")] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON, all of them.")] = False,
) -> int:
    """Read signals from a run: forgetting, boundary, rare, blamed, and those that packages bring. Without a run, list
    the readers."""
    import msgspec

    from silva.curate.signals.reader import made, readers
    from silva.curate.signals.reading import attempts_of, first_step, signals_in
    from silva.curate.signals.reading import keep as keep_signals
    from silva.lake import open_lake

    known = readers()
    if not run:
        if as_json:
            print_json([{"name": name, "summary": each.summary} for name, each in known.items()])
            return Exit.OK
        for name, each in known.items():
            typer.echo(f"{name:<12} {each.summary}")
        return Exit.OK
    options: dict[str, dict[str, object]] = {name: {} for name in reader or known}
    for each in option or ():
        path, sign, value = each.partition("=")
        name, dot, field = path.partition(".")
        if not (sign and dot and field and name in options):
            raise UsageError(f"--set {each}: give KIND.OPTION=VALUE; kinds asked for: {', '.join(options)}")
        options[name][field] = value.split(",") if "," in value else value
    asked = made(options)
    with open_lake(lake, mode="write" if keep else "read") as opened:
        attempts = attempts_of(opened, run)
        found = signals_in(attempts, asked, first_step(attempts, run[-1]))
        new = keep_signals(opened, found) if keep else 0
    if as_json:
        print_json([{"id": each.id, **msgspec.to_builtins(each)} for each in found])
        return Exit.OK
    counts = Counter(each.kind for each in found)
    walks = len({each.trajectory.id for each in attempts if each.trajectory.run_id == run[-1]})
    told = ", ".join(f"{each.name} {counts[each.name]}" for each in asked)
    typer.echo(f"{len(found)} signals in {len({each.trajectory for each in found})} of {walks} walks: {told}")
    for each in found[:limit]:
        typer.echo(f"  {each.kind:<10} {each.task} turn {each.turn}  {each.trajectory[:8]}  {each.focus}")
    if len(found) > limit > 0:
        typer.echo(f"  … and {len(found) - limit} more; --limit {len(found)} prints all")
    if keep:
        typer.echo(f"{new} new notes in the lake")
    return Exit.OK

"""`silva loop KIND|person|show`: turn a closed loop, and see where it stands. Each kind of loop is a command."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from silva.cli.as_json import print_json
from silva.cli.loop_person import person
from silva.errors import Exit
from silva.loops.kernel.table import summaries

if TYPE_CHECKING:
    from silva.loops.kernel.kind import Kind
    from silva.loops.kernel.ledger import Entry
    from silva.loops.kernel.loop import Loop
    from silva.loops.kernel.stage import Stage

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Closed loops: run, select, train, prove, promote.")


def _turning(name: str) -> Callable[..., int]:
    """The command that turns loops of a kind."""

    def begin(
        config: Annotated[Path, typer.Argument(help="YAML or TOML file.")],
        overrides: Annotated[
            list[str] | None, typer.Argument(help="Dotted overrides of the config, such as measure.seeds=3.")
        ] = None,
        dry_run: Annotated[
            bool, typer.Option("--dry-run", help="Print configuration and stages, run nothing.")
        ] = False,
        one_process: Annotated[
            bool, typer.Option("--one-process", help="Run all stages in this process: starts sooner, for small loops.")
        ] = False,
        show_report: Annotated[bool, typer.Option("--open", help="Open the report in a browser at the end.")] = False,
        as_json: Annotated[
            bool, typer.Option("--json", help="Print the result as JSON; progress goes to stderr.")
        ] = False,
    ) -> int:
        from silva.cli.config import load
        from silva.loops.kernel.kinds import kind
        from silva.loops.kernel.loop import REPORT
        from silva.loops.kernel.seen import waits
        from silva.loops.kernel.turn import turn

        mine = kind(name)
        settings = load(mine.config, config, overrides or [])
        if dry_run:
            return _dry(mine, mine.open(settings), as_json)
        loop = turn(settings, _progress(mine), here=one_process)
        _tell(mine, loop, as_json)
        if waits(loop):
            return Exit.INCOMPLETE
        if show_report:
            import webbrowser

            webbrowser.open((loop.folder / REPORT).resolve().as_uri())
        return Exit.OK

    return begin


for each, summary in summaries().items():
    text = f"{summary} A folder that holds this loop goes on where it was, killed or not."
    app.command(each, help=text)(_turning(each))


@app.command()
def show(
    folder: Annotated[Path, typer.Argument(help="The loop's folder.")],
    every: Annotated[bool, typer.Option("--all", help="Print every point, task, pair and line of a diff.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False,
) -> int:
    """Where a loop stands: stages, curves, tasks born, pairs, versions with diffs. It may be running meanwhile."""
    from silva.cli.loop_show import print_shown, print_stages
    from silva.loops.kernel.kinds import read_loop
    from silva.loops.kernel.seen import shown, stages, whole

    kind, loop = read_loop(folder)
    if as_json:
        print_json(whole(kind, loop))
        return Exit.OK
    print_stages(stages(kind, loop), max((entry.at for entry in loop.ledger.entries), default=0.0))
    print_shown(shown(kind, loop), every)
    _tell(kind, loop, as_json=False)
    return Exit.OK


app.command()(person)


def _dry(kind: Kind[Any], loop: Loop[Any], as_json: bool) -> int:
    """Print a loop's configuration and stages."""
    from silva.cli.config import render
    from silva.loops.kernel.seen import stages
    from silva.loops.kernel.turn import check

    if loop.folder.is_dir():
        check(loop)
    if as_json:
        print_json({"config": loop.config.model_dump(mode="json"), "stages": stages(kind, loop)})
        return Exit.OK
    sys.stdout.write(render(loop.config))
    for stage in stages(kind, loop):
        sys.stdout.write(f"# {stage['name']}: {stage['state']}\n")
    return Exit.OK


def _progress(kind: Kind[Any]) -> Callable[[Stage, Entry], None]:
    """What tells on stderr what a loop does."""

    def tell(stage: Stage, entry: Entry) -> None:
        if entry.event == "begun":
            sys.stderr.write(f"{stage.name} …\n")
            return
        if entry.event == "waiting":
            sys.stderr.write(f"{stage.name} waits: {entry.note}\n")
            return
        more = entry.note or (kind.line(stage, entry.outputs) if entry.event == "ended" else "")
        sys.stderr.write(f"{stage.name} {entry.event} in {entry.seconds:.1f} s{f': {more}' if more else ''}\n")

    return tell


def _tell(kind: Kind[Any], loop: Loop[Any], as_json: bool) -> None:
    """Print where a loop stands."""
    from silva.loops.kernel.loop import REPORT
    from silva.loops.kernel.seen import stages

    standing = kind.standing(loop)
    if as_json:
        rows = stages(kind, loop)
        print_json({"folder": str(loop.folder), "loop": kind.name, "lake": loop.lake, **standing.facts, "stages": rows})
        return
    sys.stdout.write("".join(f"{line}\n" for line in standing.words))
    if (loop.folder / REPORT).exists():
        sys.stdout.write(f"report: {loop.folder / REPORT}\n")

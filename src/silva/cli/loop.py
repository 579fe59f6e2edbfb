"""`silva loop KIND|person|show`: turn a closed loop, and see where it stands. Each kind of loop is a command."""

from __future__ import annotations

import sys
import time
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
        show_report: Annotated[bool, typer.Option("--open", help="Open the report in a browser at the end.")] = False,
        as_json: Annotated[
            bool, typer.Option("--json", help="Print the result as JSON; progress goes to stderr.")
        ] = False,
    ) -> int:
        from silva.cli.config import load
        from silva.loops.kernel.kinds import kind
        from silva.loops.kernel.loop import REPORT
        from silva.loops.kernel.turn import turn

        mine = kind(name)
        settings = load(mine.config, config, overrides or [])
        if dry_run:
            return _dry(mine.open(settings), as_json)
        loop = turn(settings, _progress(mine))
        _tell(mine, loop, as_json)
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
    as_json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False,
) -> int:
    """Where a loop stands: its stages, versions and verdicts. It may be running meanwhile."""
    from silva.loops.kernel.kinds import read_loop

    _tell(*read_loop(folder), as_json, every=True)
    return Exit.OK


app.command()(person)


def _dry(loop: Loop[Any], as_json: bool) -> int:
    """Print a loop's configuration and stages."""
    from silva.cli.config import render
    from silva.loops.kernel.turn import check

    if loop.folder.is_dir():
        check(loop)
    if as_json:
        _json({"config": loop.config.model_dump(mode="json"), "stages": _stages(loop)})
        return Exit.OK
    sys.stdout.write(render(loop.config))
    for stage in _stages(loop):
        sys.stdout.write(f"# {stage['name']}: {stage['state']}\n")
    return Exit.OK


def _progress(kind: Kind[Any]) -> Callable[[Stage, Entry], None]:
    """What tells on stderr what a loop does."""

    def tell(stage: Stage, entry: Entry) -> None:
        if entry.event == "begun":
            sys.stderr.write(f"{stage.name} …\n")
            return
        more = entry.note or (kind.line(stage, entry.outputs) if entry.event == "ended" else "")
        sys.stderr.write(f"{stage.name} {entry.event} in {entry.seconds:.1f} s{f': {more}' if more else ''}\n")

    return tell


def _stages(loop: Loop[Any]) -> list[dict[str, Any]]:
    from silva.loops.kernel.progress import progress

    over = loop.ledger.over()
    last = {entry.stage: entry for entry in loop.ledger.entries} | over
    now = progress(loop)
    return [
        {
            "name": stage.name,
            "kind": stage.kind,
            "state": last[stage.name].event if stage.name in last else "to do",
            "seconds": sum(entry.seconds for entry in loop.ledger.entries if entry.stage == stage.name),
            "note": last[stage.name].note if stage.name in last else "",
            "progress": str(now) if now is not None and now.stage == stage.name else "",
            "outputs": over[stage.name].outputs if stage.name in over else {},
        }
        for stage in loop.plan
    ]


def _tell(kind: Kind[Any], loop: Loop[Any], as_json: bool, every: bool = False) -> None:
    """Print where a loop stands; with `every`, each stage."""
    from silva.loops.kernel.loop import REPORT

    rows = _stages(loop)
    standing = kind.standing(loop)
    if as_json:
        _json({"folder": str(loop.folder), "loop": kind.name, "lake": loop.lake, **standing.facts, "stages": rows})
        return
    if every:
        for stage, row in zip(loop.plan, rows, strict=True):
            more = row["note"] or row["progress"]
            if row["state"] == "ended":
                more = kind.line(stage, row["outputs"])
            told = f"{row['state']:<8} {row['seconds']:>7.1f} s  {row['name']}{f': {more}' if more else ''}"
            sys.stdout.write(f"{told}\n")
        last = max((entry.at for entry in loop.ledger.entries), default=0.0)
        if last:
            sys.stdout.write(f"last written {time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(last))}\n")
    sys.stdout.write("".join(f"{line}\n" for line in standing.words))
    if (loop.folder / REPORT).exists():
        sys.stdout.write(f"report: {loop.folder / REPORT}\n")


def _json(value: Any) -> None:
    print_json(value)

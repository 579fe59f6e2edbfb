"""`silva loop flywheel|apollo|person|show`: turn a closed loop, and see where it stands."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from silva.cli.loop_apollo import apollo, person
from silva.errors import Exit

if TYPE_CHECKING:
    from silva.loops.flywheel.loop import Loop

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Closed loops: run, select, train, prove, promote.")


@app.command()
def flywheel(
    config: Annotated[Path, typer.Argument(help="YAML or TOML file.")],
    overrides: Annotated[
        list[str] | None, typer.Argument(help="Dotted overrides of the config, such as measure.seeds=3.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print configuration and stages, run nothing.")] = False,
    show_report: Annotated[bool, typer.Option("--open", help="Open the report in a browser at the end.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON; progress goes to stderr.")] = False,
) -> int:
    """Turn the flywheel. A folder that holds this loop goes on where it was, killed or not."""
    from silva.cli.config import load
    from silva.loops.flywheel.config import FlywheelConfig
    from silva.loops.flywheel.flywheel import turn
    from silva.loops.flywheel.loop import Loop

    settings = load(FlywheelConfig, config, overrides or [])
    if dry_run:
        return dry(Loop(settings), as_json)
    loop = turn(settings, progress)
    tell(loop, as_json)
    if show_report:
        import webbrowser

        webbrowser.open((loop.folder / "report.html").resolve().as_uri())
    return Exit.OK


@app.command()
def show(
    folder: Annotated[Path, typer.Argument(help="The loop's folder.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False,
) -> int:
    """Where a loop stands: its stages, versions and verdicts. It may be running meanwhile."""
    from silva.loops.apollo.apollo import read_loop

    tell(read_loop(folder), as_json, every=True)
    return Exit.OK


app.command()(apollo)
app.command()(person)


def dry(loop: Loop, as_json: bool) -> int:
    """Print a loop's configuration and stages."""
    from silva.cli.config import render
    from silva.loops.flywheel.flywheel import check

    if loop.folder.is_dir():
        check(loop)
    if as_json:
        _json({"config": loop.config.model_dump(mode="json"), "stages": _stages(loop)})
        return Exit.OK
    sys.stdout.write(render(loop.config))
    for stage in _stages(loop):
        sys.stdout.write(f"# {stage['name']}: {stage['state']}\n")
    return Exit.OK


def progress(stage: Any, entry: Any) -> None:
    """Tell on stderr what a loop does."""
    if entry.event == "begun":
        sys.stderr.write(f"{stage.name} …\n")
        return
    more = f": {entry.note}" if entry.note else _line(stage, entry.outputs)
    sys.stderr.write(f"{stage.name} {entry.event} in {entry.seconds:.1f} s{more}\n")


def _line(stage: Any, outputs: dict[str, Any]) -> str:
    if stage.kind in ("survey", "rollout", "measure"):
        return f": {outputs['episodes']} episodes, success {100 * outputs['success']:.1f} %"
    if stage.kind == "mask":
        unjudged = f", {outputs['unjudged']} unjudged" if outputs["unjudged"] else ""
        return f": {outputs['masked']} of {outputs['turns']} turns masked{unjudged}"
    if stage.kind == "split":
        return ": " + ", ".join(f"{name} {count}" for name, count in outputs["tasks"].items())
    if stage.kind == "select":
        return f": {outputs['samples']} samples, {outputs['ids']:,} ids, {outputs['with_loss']:,} with loss"
    if stage.kind == "register":
        return f": {outputs['version']}"
    if stage.kind == "judge":
        said = "promoted" if outputs["promoted"] else "rejected"
        return f": {said}; {_verdict(outputs['verdict'])}"
    if stage.kind == "prove" and outputs["verdict"] is not None:
        said = "; rolled back" if outputs["rolled_back"] else ""
        return f": {_verdict(outputs['verdict'])}{said}"
    return ""


def _verdict(said: dict[str, Any]) -> str:
    import msgspec

    from silva.loops.flywheel.verdict import Verdict

    return str(msgspec.convert(said, Verdict))


def _stages(loop: Loop) -> list[dict[str, Any]]:
    over = loop.ledger.over()
    last = {entry.stage: entry for entry in loop.ledger.entries} | over
    return [
        {
            "name": stage.name,
            "kind": stage.kind,
            "state": last[stage.name].event if stage.name in last else "to do",
            "seconds": sum(entry.seconds for entry in loop.ledger.entries if entry.stage == stage.name),
            "note": last[stage.name].note if stage.name in last else "",
            "outputs": over[stage.name].outputs if stage.name in over else {},
        }
        for stage in loop.plan
    ]


def tell(loop: Loop, as_json: bool, every: bool = False) -> None:
    """Print where a loop stands; with `every`, each stage."""
    rows = _stages(loop)
    proof = next((row["outputs"] for row in rows if row["kind"] == "prove" and row["state"] == "ended"), None)
    head = _head(loop)
    if as_json:
        _json({"folder": str(loop.folder), "lake": loop.lake, "head": head, "proof": proof, "stages": rows})
        return
    if every:
        kinds = {stage.name: stage for stage in loop.plan}
        for row in rows:
            more = f": {row['note']}" if row["note"] else ""
            if row["state"] == "ended":
                more = _line(kinds[row["name"]], row["outputs"])
            sys.stdout.write(f"{row['state']:<8} {row['seconds']:>7.1f} s  {row['name']}{more}\n")
        last = max((entry.at for entry in loop.ledger.entries), default=0.0)
        if last:
            sys.stdout.write(f"last written {time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(last))}\n")
    sys.stdout.write(f"head: {head or 'none yet'}\n")
    if proof is not None and proof["verdict"] is not None:
        sys.stdout.write(f"on tasks no decision saw: {_verdict(proof['verdict'])}\n")
    if (loop.folder / "report.html").exists():
        sys.stdout.write(f"report: {loop.folder / 'report.html'}\n")


def _head(loop: Loop) -> str:
    from silva.loops.flywheel.report import head_of

    return head_of(loop)


def _json(value: Any) -> None:
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")

"""`silva tasks`: tasks that loops made, where they come from, and a person's word on those that wait."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Annotated, Any

import typer

from silva.cli.as_json import print_json
from silva.cli.login import login
from silva.errors import Exit, UsageError

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="Tasks that a loop made of walks, or had written: how each came about; a person's word on those that wait.",
)

RunName = Annotated[str, typer.Argument(metavar="RUN", help="The run whose tasks they are.")]
Location = Annotated[str | None, typer.Option("--lake", envvar="SILVA_LAKE", help="Folder or object-store URL.")]
By = Annotated[str | None, typer.Option(envvar="SILVA_USER", help="Who says it; the login name if none.")]
Json = Annotated[bool, typer.Option("--json", help="Print as JSON.")]


@app.command("list")
def list_tasks(
    run: RunName,
    lake: Location = None,
    waiting: Annotated[bool, typer.Option("--waiting", help="Those alone that wait for a person.")] = False,
    as_json: Json = False,
) -> int:
    """List a run's synthesised tasks: accepted, waiting, and refused with the reason."""
    import msgspec

    found = [(task, said) for task, said in _born(run, lake) if not waiting or said.verdict == "waiting"]
    if as_json:
        print_json(
            [{"id": task.id, "instruction": task.instruction, **msgspec.to_builtins(said)} for task, said in found]
        )
        return Exit.OK
    for task, said in found:
        like = "" if said.similarity is None else f"  {said.similarity:.2f} like {said.nearest}"
        origin = (
            f"  from {said.source.trajectory[:8]} ({said.source.signal or 'no signal'})"
            if said.source.trajectory
            else ""
        )
        reason = f" ({said.reason}: {said.why[:120]})" if said.reason else ""
        typer.echo(f"{said.verdict:<8}  {task.id}  {len(said.solution)} actions{origin}{like}{reason}")
    counts = Counter(said.verdict for _, said in found)
    typer.echo(
        f"{len(found)} tasks: {', '.join(f'{count} {verdict}' for verdict, count in sorted(counts.items())) or 'none'}"
    )
    return Exit.OK


@app.command()
def show(
    run: RunName, task: Annotated[str, typer.Argument(metavar="TASK", help="Its id.")], lake: Location = None
) -> int:
    """Everything that is known of how a task came about, as JSON."""
    import msgspec

    for each, said in _born(run, lake):
        if each.id == task:
            body: Any = msgspec.to_builtins(each)
            body.pop("born", None)
            print_json({**body, "born": msgspec.to_builtins(said)})
            return Exit.OK
    raise UsageError(f"run {run}: has no synthesised task {task!r}; see silva tasks list {run}")


@app.command()
def approve(
    run: RunName,
    task: Annotated[list[str] | None, typer.Argument(metavar="TASK", help="Its id; all that wait if none.")] = None,
    lake: Location = None,
    by: By = None,
    why: Annotated[str, typer.Option(help="A reason, kept with the task.")] = "",
) -> int:
    """Let waiting tasks be learnt from."""
    return _decide(run, task or [], lake, by, True, why)


@app.command()
def reject(
    run: RunName,
    task: Annotated[list[str], typer.Argument(metavar="TASK", help="Its id; several may be given.")],
    lake: Location = None,
    by: By = None,
    why: Annotated[str, typer.Option(help="A reason, kept with the task.")] = "",
) -> int:
    """Keep waiting tasks from being learnt from."""
    return _decide(run, task, lake, by, False, why)


def _born(run: str, lake: str | None) -> list[Any]:
    from silva.lake import open_lake
    from silva.loops.roles.born import born

    with open_lake(lake, mode="read") as opened:
        if opened.run(run) is None and not opened.tasks(run_id=run, limit=1):
            raise UsageError(f"lake {opened.location}: has no run {run!r}; see `silva trees list`")
        return born(opened, run)


def _decide(run: str, tasks: list[str], lake: str | None, by: str | None, approved: bool, why: str) -> int:
    from silva.lake import open_lake
    from silva.loops.roles.admission import decide

    async def said() -> list[Any]:
        with open_lake(lake, mode="write") as opened:
            return await decide(opened, run, tasks, by or login(), approved, why)

    for task in asyncio.run(said()):
        typer.echo(f"{'approved' if approved else 'rejected'}: {task.id}")
    return Exit.OK

"""`silva trees`: list, show, export, import, replay, branch and explore what was grown."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from silva.cli.as_json import print_json
from silva.cli.trees_branch import branch, explore

app = typer.Typer(
    add_completion=False, no_args_is_help=True, help="List, show, export, import, replay and branch what was grown."
)

Location = Annotated[
    str | None, typer.Option("--lake", envvar="SILVA_LAKE", help="Folder or s3://bucket/prefix; ./lake when left out.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
RunName = Annotated[str | None, typer.Option("--run", help="Of this run.")]
Env = Annotated[str | None, typer.Option(help="Of this environment.")]
TaskId = Annotated[str | None, typer.Option("--task", help="Of this task.")]
State = Annotated[str | None, typer.Option("--status", help="completed, truncated or failed.")]
Where = Annotated[str | None, typer.Option(help="For example: score >= 0.5 and turns < 10.")]
Identity = Annotated[str, typer.Argument(metavar="TRAJECTORY", help="Its id, or enough of its beginning.")]


_MOST_NOTES = 20


@app.command("list")
def list_(
    lake: Location = None,
    run: RunName = None,
    env: Env = None,
    task: TaskId = None,
    status: State = None,
    where: Where = None,
    limit: Annotated[int, typer.Option(min=1, help="At most so many, the latest first.")] = 20,
    as_json: AsJson = False,
) -> None:
    """Trajectories, the latest first."""
    with _open(lake) as opened:
        found = _chosen(opened, run, env, task, status, where)
    found.sort(key=lambda each: (-each.started, each.run_id, each.task_id, each.index, each.attempt))
    shown = found[:limit]
    if as_json:
        from silva.tree import to_json

        _print_json([to_json(each) for each in shown])
        return
    from silva.cli.trees_show import console, listing

    if shown:
        console().print(listing(shown))
    sys.stdout.write(f"{len(shown)} of {len(found)} trajectories\n" if found else "no trajectories\n")


@app.command()
def show(
    trajectory: Identity,
    lake: Location = None,
    whole: Annotated[bool, typer.Option("--tree", help="The whole tree with its branches.")] = False,
    context: Annotated[
        int | None, typer.Option(min=0, metavar="TURN", help="What the model saw at this turn, from 1; 0: the last.")
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Nothing cut, however long a message is.")] = False,
    role: Annotated[str | None, typer.Option(help="As this role of it walked it, where several agents acted.")] = None,
    as_json: AsJson = False,
) -> None:
    """One trajectory from its first message to its outcome, or the tree it stands on, or what its model saw at a
    turn. Of a message of more than 4,000 characters its beginning and its end are shown."""
    from silva.lake import field
    from silva.tree import to_json

    with _open(lake) as opened:
        found = _as_role(opened.trajectory(trajectory), role)
        if context is not None:
            from silva.cli.trees_context import show_seen
            from silva.rollout.seen import seen_at

            show_seen(found, seen_at(opened.tree(found.tree_id), found, context), as_json, full)
            return
        if whole:
            grown = opened.tree(found.tree_id)
            ended = opened.trajectories(where=field("tree_id") == found.tree_id)
            if as_json:
                nodes = [to_json(node) for node in grown]
                _print_json({"tree": grown.id, "nodes": nodes, "trajectories": [to_json(each) for each in ended]})
                return
        else:
            walk = opened.walk(found)
    from silva.cli import trees_show

    if whole:
        trees_show.console().print(trees_show.tree(grown, ended))
    elif as_json:
        _print_json({"trajectory": to_json(found), "nodes": [to_json(node) for node in walk]})
    else:
        trees_show.console().print(trees_show.walk(found, walk, full=full))


def _as_role(trajectory: Any, role: str | None) -> Any:
    from silva.errors import UsageError
    from silva.tree import in_role, roles_of

    there = roles_of(trajectory)
    if role is not None and role not in there:
        names = ", ".join(there) or "none: a single agent acted"
        raise UsageError(f"trajectory {trajectory.id[:12]}: has no role {role!r}; it has {names}")
    return trajectory if role is None else in_role(trajectory, role)


@app.command()
def export(
    output: Annotated[Path | None, typer.Option("--output", "-o", help="File to write; standard output if -.")] = None,
    format_: Annotated[
        str | None, typer.Option("--format", "-f", help="A format that can be written; else by the file's ending.")
    ] = None,
    lake: Location = None,
    run: RunName = None,
    env: Env = None,
    task: TaskId = None,
    status: State = None,
    where: Where = None,
    role: Annotated[str | None, typer.Option(help="As this role walked it, where several agents acted.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it is there.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write trajectories to a file. A run without further conditions goes out whole, unfinished branches too."""
    import msgspec

    from silva.errors import UsageError
    from silva.lake.exporting import bundles, export, format_of

    if output is None:
        raise UsageError("where to? add --output FILE (- for standard output)")
    target = None if str(output) == "-" else output
    name = format_of(format_, target)
    with _open(lake) as opened:
        if run is not None and opened.run(run) is None and not opened.trajectories(run_id=run, limit=1):
            raise UsageError(f"lake {opened.location}: has no run {run}; see `silva trees list`")
        chosen = _chosen(opened, run, env, task, status, where)
        chosen.sort(key=lambda each: (each.run_id, each.task_id, each.index, each.attempt))
        if role is not None:
            chosen = _in_role(chosen, role)
        whole = [run] if run is not None and not any((env, task, status, where, role)) else []
        if not chosen and not whole:
            raise UsageError("no trajectory meets the conditions; nothing was written")
        done = export(opened, name, lambda: bundles(opened, chosen, whole, alone=role is not None), target, force)
    if as_json and target is not None:
        _print_json(msgspec.to_builtins(done))
        return
    images = f", {done.images} images" if done.images else ""
    for line in done.dropped[:_MOST_NOTES]:
        typer.echo(line, err=True)
    dropped = f"; {len(done.dropped)} could not be written and dropped out" if done.dropped else ""
    typer.echo(f"{done.trajectories} trajectories, {done.nodes} nodes{images} as {name}{dropped}", err=True)
    if done.missing and target is not None:
        typer.echo(f"{done.missing} images are not in the lake and were left out", err=True)


def _in_role(chosen: list[Any], role: str) -> list[Any]:
    from silva.errors import UsageError
    from silva.tree.role import in_roles, roles_of

    there = sorted({name for each in chosen for name in roles_of(each)})
    if role not in there:
        known = f"have the roles {', '.join(there)}" if there else "have one agent"
        raise UsageError(f"--role {role}: these trajectories {known}")
    return in_roles(chosen, role)


@app.command("import")
def import_(
    file: Annotated[Path, typer.Argument(help="A file in any format that Silva reads.")],
    format_: Annotated[str | None, typer.Option("--format", "-f", help="Its format; else found out.")] = None,
    run: Annotated[str | None, typer.Option(help="Run to import into; else the file's own, or its name.")] = None,
    lake: Location = None,
    as_json: AsJson = False,
) -> None:
    """Read a file into the lake; importing it again adds nothing."""
    import msgspec

    from silva.lake import default_location
    from silva.lake.importing import take_in
    from silva.tree.formats import find

    name = find(format_).name if format_ is not None else None
    done = asyncio.run(take_in(lake or default_location(), file, name, run))
    if as_json:
        _print_json(msgspec.to_builtins(done))
        return
    for note in done.notes[:_MOST_NOTES]:
        typer.echo(note, err=True)
    if len(done.notes) > _MOST_NOTES:
        typer.echo(f"and {len(done.notes) - _MOST_NOTES} more of this kind (--json tells all)", err=True)
    known = f" ({done.known} were there already)" if done.known else ""
    images = f", {done.images} images" if done.images else ""
    dropped = f"; {done.dropped} could not be read and dropped out" if done.dropped else ""
    runs = ", ".join(done.runs)
    said = (
        f"{done.trajectories} trajectories{known}, {done.nodes} nodes{images} from {done.format} into {runs}{dropped}"
    )
    typer.echo(said)


@app.command()
def tokens(trajectory: Identity, lake: Location = None, as_json: AsJson = False) -> None:
    """The exact token ids of a trajectory, with what was sampled and its log-probabilities; refuses where they are not
    known."""
    from silva.errors import UsageError
    from silva.tree import InexactTokensError, token_walk

    with _open(lake) as opened:
        found = opened.trajectory(trajectory)
        walk = opened.walk(found)
    try:
        exact = token_walk(walk)
    except InexactTokensError as error:
        raise UsageError(f"trajectory {found.id[:12]}: {error}; ask a backend that gives them") from error
    if as_json:
        body = {"trajectory": found.id, "ids": exact.ids, "sampled": exact.sampled, "logprobs": exact.logprobs}
        _print_json({**body, "nodes": [walk[place].id for place in exact.nodes]})
        return
    from silva.cli.trees_show import console
    from silva.cli.trees_tokens import counted

    console().print(counted(walk, exact))


@app.command()
def replay(
    trajectory: Identity,
    lake: Location = None,
    env: Annotated[str | None, typer.Option(help="The environment, where it is registered by another name.")] = None,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds one call of the environment may take.")] = 60.0,
    as_json: AsJson = False,
) -> int:
    """Take a trajectory's actions again in its environment; exit 0 when it answers the same, 1 when it diverges."""
    from silva.rollout.replay_stored import replay_stored

    with _open(lake) as opened:
        found = opened.trajectory(trajectory)
        done = asyncio.run(replay_stored(opened, found, env=env, seconds=timeout))
        return _say_replayed(found, done, len(opened.walk(found)), as_json)


def _say_replayed(found: Any, done: Any, messages: int, as_json: bool) -> int:
    import msgspec

    from silva.errors import Exit

    where = done.divergence
    if as_json:
        body = {"trajectory": found.id, "same": where is None, "turns": done.turns}
        _print_json({**body, "divergence": None if where is None else msgspec.to_builtins(where)})
    elif where is None:
        typer.echo(f"same: {done.turns} turns, {messages} messages")
    else:
        from silva.cli.trees_show import console, plain

        screen = console()
        screen.print(plain(f"diverged at {where}", "bold red"))
        screen.print(plain("stored:", "bold"), plain(where.stored), sep="\n")
        screen.print(plain("now:", "bold"), plain(where.seen), sep="\n")
    return Exit.OK if where is None else Exit.FAULT


def _chosen(
    lake: Any, run: str | None, env: str | None, task: str | None, status: str | None, where: str | None
) -> list[Any]:
    from silva.errors import UsageError
    from silva.lake import parse
    from silva.tree import Status

    if status is not None and status not in set(Status):
        raise UsageError(f"unknown status {status!r}; known: {', '.join(Status)}")
    condition = parse(where) if where else None
    return lake.trajectories(run_id=run, env=env, task_id=task, status=status, where=condition)


def _open(location: str | None) -> Any:
    from silva.lake import Lake, default_location

    return Lake.open(location or default_location(), mode="read")


def _print_json(value: Any) -> None:
    print_json(value)


app.command()(branch)
app.command()(explore)

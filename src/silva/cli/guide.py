"""`silva guide …`: what people say to a run while its agents work."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer

from silva.cli.as_json import print_json
from silva.cli.login import login
from silva.errors import Exit, UsageError

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="Say something to the agents of a running rollout. It is on disk before this returns, and is heard before the "
    "next turn.",
)

RunName = Annotated[str, typer.Argument(metavar="RUN", help="The run's name.")]
Location = Annotated[str | None, typer.Option("--lake", envvar="SILVA_LAKE", help="The run's lake.")]
To = Annotated[str, typer.Option(help="A trajectory's id, a task's id, or * for all.")]
By = Annotated[str | None, typer.Option(envvar="SILVA_USER", help="Who says it; the login name if none.")]
Why = Annotated[str, typer.Option(help="A reason, kept with the record.")]
Turn = Annotated[int, typer.Option(help="Which turn, from 1; 0: the last.")]
ACTION = 'Plain words, or JSON: {"name": "tool", "arguments": {…}}.'
_STARTING_SECONDS = 20.0
"""How long a run whose lake is being written may take to begin."""
_LOOK_SECONDS = 0.25
Action = Annotated[str, typer.Option(help=f"The action to take instead. {ACTION}")]
Pattern = Annotated[str, typer.Argument(help="Regular expression, looked for in the action's call and words.")]


@app.command()
def say(
    run: RunName,
    text: Annotated[str, typer.Argument(help="The words.")],
    to: To = "*",
    by: By = None,
    lake: Location = None,
) -> int:
    """Words for the agent, delivered before its next turn."""
    return _tell(run, "say", lake, by, to=to, text=text)


@app.command()
def pause(run: RunName, to: To = "*", by: By = None, why: Why = "", lake: Location = None) -> int:
    """Wait before the next turn, until resume or stop."""
    return _tell(run, "pause", lake, by, to=to, why=why)


@app.command()
def resume(run: RunName, to: To = "*", by: By = None, why: Why = "", lake: Location = None) -> int:
    """Go on after a pause."""
    return _tell(run, "resume", lake, by, to=to, why=why)


@app.command()
def stop(run: RunName, to: To = "*", by: By = None, why: Why = "", lake: Location = None) -> int:
    """End trajectories after the turn under way; they are evaluated as they stand."""
    return _tell(run, "stop", lake, by, to=to, why=why)


@app.command()
def forbid(run: RunName, pattern: Pattern, to: To = "*", by: By = None, why: Why = "", lake: Location = None) -> int:
    """From here on, let no action be taken in which a pattern is found; the agent is told."""
    return _tell(run, "forbid", lake, by, to=to, why=why, pattern=pattern)


@app.command()
def allow(run: RunName, pattern: Pattern, to: To = "*", by: By = None, why: Why = "", lake: Location = None) -> int:
    """Take back what was forbidden."""
    return _tell(run, "allow", lake, by, to=to, why=why, pattern=pattern)


@app.command()
def good(run: RunName, to: To, turn: Turn = 0, by: By = None, why: Why = "", lake: Location = None) -> int:
    """A turn was right."""
    return _tell(run, "good", lake, by, to=to, why=why, turn=turn)


@app.command()
def bad(run: RunName, to: To, turn: Turn = 0, by: By = None, why: Why = "", lake: Location = None) -> int:
    """A turn was wrong."""
    return _tell(run, "bad", lake, by, to=to, why=why, turn=turn)


@app.command()
def back(
    run: RunName,
    to: To,
    turn: Turn = 0,
    action: Action = "",
    message: Annotated[str, typer.Option(help="Words for the agent, which chooses again.")] = "",
    by: By = None,
    why: Why = "",
    lake: Location = None,
) -> int:
    """Go back to a turn after the one under way, and take another action there; what came of it stays as a branch."""
    return _tell(run, "back", lake, by, to=to, turn=turn, action=action, text=message, why=why)


@app.command()
def edit(
    run: RunName,
    action: Annotated[str, typer.Argument(help=ACTION)],
    to: To = "*",
    turn: Turn = 0,
    by: By = None,
    why: Why = "",
    lake: Location = None,
) -> int:
    """Take this action in the place of the one that waits for approval; where none waits, as back."""
    return _tell(run, "edit", lake, by, to=to, turn=turn, action=action, why=why)


@app.command()
def approve(run: RunName, to: To = "*", turn: Turn = 0, by: By = None, why: Why = "", lake: Location = None) -> int:
    """Let the actions that wait be taken."""
    return _tell(run, "approve", lake, by, to=to, turn=turn, why=why)


@app.command()
def reject(run: RunName, to: To = "*", turn: Turn = 0, by: By = None, why: Why = "", lake: Location = None) -> int:
    """Let the actions that wait not be taken; the agent is told why."""
    return _tell(run, "reject", lake, by, to=to, turn=turn, why=why)


@app.command("list")
def list_(
    run: RunName,
    lake: Location = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the words as JSON.")] = False,
    waits: Annotated[bool, typer.Option("--waiting", help="Only the actions that wait for approval.")] = False,
) -> int:
    """What was said to a run and what became of it, and which actions wait for approval."""
    import msgspec

    from silva.guide import events, words
    from silva.guide.event import became_of, waiting_of
    from silva.guide.follow import plain

    place = _place(lake)
    happened = events(place, run).read()
    waiting, said = waiting_of(happened), words(place, run)
    if as_json:
        print_json([msgspec.to_builtins(each) for each in (waiting if waits else said)])
        return Exit.OK
    fates = became_of(happened)
    for one in () if waits else said:
        more = " ".join(
            filter(None, (one.pattern, f"turn {one.turn}" if one.turn else "", one.action, one.text, one.why))
        )
        fate = fates[one.id].shown() if one.id in fates else "not heard yet"
        typer.echo(f"{_clock(one.at)}  {plain(one.by)}  {one.kind}  to {plain(one.to)}  {plain(more)}  [{plain(fate)}]")
    for each in waiting:
        reasons = ", ".join(each.reasons)
        typer.echo(
            f"{_clock(each.since)}  WAITS for approval ({plain(reasons)}): {plain(each.task_id)} "
            f"{each.trajectory_id[:12]} turn {each.turn}: {plain(each.action)}"
        )
    if not said and not waiting:
        typer.echo(f"nothing was said to run {run}")
    elif waits and not waiting:
        typer.echo(f"no action of run {run} waits")
    return Exit.OK


def _tell(run: str, kind: str, lake: str | None, by: str | None, **more: Any) -> int:
    from silva.guide import post
    from silva.guide.post import NotThereError

    place, until = _place(lake), time.monotonic() + _STARTING_SECONDS
    while True:
        try:
            all_said = post(place, run, kind, by or login(), **more)
            break
        except NotThereError as error:
            if not _is_written(place):
                raise
            if time.monotonic() > until:
                what = f"lake {place}: somebody writes there, and has not begun run {run!r}"
                raise UsageError(f"{what}: say it again once `silva trees list` shows it") from error
            time.sleep(_LOOK_SECONDS)
    for said in all_said:
        about = f" about {said.node[:12]}" if said.node else ""
        typer.echo(f"said to run {run}: {kind}{about} ({said.id})")
    return Exit.OK


def _is_written(place: str) -> bool:
    """Whether somebody writes into a lake on this machine now: a run that was just started may be about to begin."""
    from pathlib import Path

    from silva.lake.lock import held

    return held(Path(place))


def _place(lake: str | None) -> str:
    from silva.lake import default_location

    return str(lake or default_location())


def _clock(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))


def _registered() -> None:
    from silva.cli.guide_attach import attach
    from silva.cli.guide_serve import serve

    app.command()(attach)
    app.command()(serve)


_registered()

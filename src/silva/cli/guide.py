"""`silva guide …`: what people say to a run while its agents work."""

from __future__ import annotations

import getpass
import json
import time
from typing import Annotated, Any

import typer

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


@app.command("list")
def list_(
    run: RunName,
    lake: Location = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> int:
    """What was said to a run, in order."""
    import msgspec

    from silva.guide import Mailbox
    from silva.guide.mailroom import folder_of

    words = Mailbox(folder_of(_place(lake)), run).read()
    if as_json:
        typer.echo(json.dumps([msgspec.to_builtins(word) for word in words]))
        return Exit.OK
    for word in words:
        clock = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(word.at))
        more = " ".join(filter(None, (word.pattern, f"turn {word.turn}" if word.turn else "", word.text, word.why)))
        typer.echo(f"{clock}  {word.by}  {word.kind}  to {word.to}  {_plain(more)}")
    if not words:
        typer.echo(f"nothing was said to run {run}")
    return Exit.OK


def _tell(run: str, kind: str, lake: str | None, by: str | None, **more: Any) -> int:
    from silva.guide import Mailbox
    from silva.guide.mailroom import folder_of
    from silva.guide.word import word
    from silva.lake import Lake

    place = _place(lake)
    with Lake.open(place, mode="read") as opened:
        known = opened.run(run)
        to = str(more["to"])
        if known is None:
            raise UsageError(f"lake {opened.location}: has no run {run!r}; see `silva trees list`")
        if known.finished:
            raise UsageError(f"run {run} has ended: nobody is there to hear it")
        deaf = known.config.get("on") == "ray" or str(known.agent).startswith("program:")
        if deaf:
            raise UsageError(f"run {run} is played by programs or on Ray: words do not reach agents there")
        ended = [each.id for each in opened.trajectories(run_id=run) if to != "*" and each.id.startswith(to)]
        if ended:
            raise UsageError(f"trajectory {ended[0][:12]} of run {run} has ended: nobody is there to hear it")
    said = word(run, kind, by or _login(), time.time(), **more)
    Mailbox(folder_of(place), run).say(said)
    typer.echo(f"said to run {run}: {kind} ({said.id})")
    return Exit.OK


def _place(lake: str | None) -> str:
    from silva.lake import default_location

    return str(lake or default_location())


def _login() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "somebody"


def _plain(text: str) -> str:
    """On one line, without what a terminal would take for orders."""
    return "".join(letter if letter.isprintable() else " " for letter in text)

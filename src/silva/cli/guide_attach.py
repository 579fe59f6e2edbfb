"""`silva guide attach`: see a run's turns as they are kept, and talk to its agents, from a terminal or a pipe."""

from __future__ import annotations

import os
import queue
import sys
import threading
import time
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from silva.errors import Exit, SilvaError, UsageError

LOOK = 0.3
"""Seconds between looks at the lake; a look that takes long is followed by a longer pause."""


def attach(
    run: Annotated[str, typer.Argument(metavar="RUN", help="The run's name.")],
    to: Annotated[str, typer.Option(help="A trajectory's id, a task's id, or * for all.")] = "*",
    by: Annotated[str | None, typer.Option(envvar="SILVA_USER", help="Who you are; the login name if none.")] = None,
    lake: Annotated[str | None, typer.Option("--lake", envvar="SILVA_LAKE", help="The run's lake.")] = None,
    tail: Annotated[int, typer.Option(min=0, help="Earlier messages to show first.")] = 10,
    stay: Annotated[bool, typer.Option("--stay", help="Go on when the input has ended, until the run ends.")] = False,
) -> int:
    """Follow a run and talk to its agents: words are said, /help lists the orders. Leaving does not end the run."""
    from silva.cli.login import login
    from silva.lake import Lake, default_location

    where = str(lake or default_location())
    with Lake.open(where, mode="read") as opened:
        if opened.run(run) is None:
            raise UsageError(f"lake {opened.location}: has no run {run!r}; see `silva trees list`")
        seat = _Seat(opened, run, to, by or login())
        try:
            return seat.sit(tail, stay)
        except KeyboardInterrupt:
            return Exit.OK


class _Seat:
    """Where one person sits: what is shown, and what is said from there."""

    def __init__(self, lake: Any, run: str, to: str, by: str) -> None:
        from silva.guide import events
        from silva.guide.follow import Follow

        self._lake, self._run, self._to, self._by = lake, run, to, by
        self._follow = Follow(lake, run, to)
        self._events = events(lake, run)
        self._lines: queue.Queue[str | None] = queue.Queue()

    def sit(self, tail: int, stay: bool) -> int:
        """Show and say until the run or the input ends."""
        shown = self._follow.read()
        self._follow.ended()
        for each in shown[len(shown) - min(tail, len(shown)) :]:
            self._show(each)
        for one in self._waiting(self._events.read()):
            self._tell_waiting(one)
        threading.Thread(target=self._listen, name="silva-input", daemon=True).start()
        failed, reading = False, True
        while True:
            began = time.monotonic()
            over = self._follow.over
            self._news()
            while reading and (line := self._next()) is not None:
                if line == "":
                    reading = False
                    break
                verdict = self._obey(line)
                if verdict == "quit":
                    return Exit.OK
                failed = failed or verdict == "failed"
            if over or not (reading or stay):
                if over:
                    typer.echo(f"run {self._run} has ended")
                return Exit.USAGE if failed and not sys.stdin.isatty() else Exit.OK
            time.sleep(max(LOOK, 4 * (time.monotonic() - began)))

    def _listen(self) -> None:
        for line in _typed():
            self._lines.put(line.rstrip("\n") + "\n")
        self._lines.put("")

    def _next(self) -> str | None:
        try:
            return self._lines.get_nowait()
        except queue.Empty:
            return None

    def _news(self) -> None:
        from silva.guide.follow import plain

        for each in self._follow.read():
            self._show(each)
        for each in self._events.read():
            if each.kind == "waiting":
                self._tell_waiting(each)
            elif each.kind == "undone":
                typer.echo(f"! not done: {plain(each.text)} ({plain(each.by)})")
            elif each.kind == "back":
                typer.echo(f"< {plain(each.by)} goes back to turn {each.turn} of {each.task_id}")
            elif each.kind == "decided":
                typer.echo(f"+ turn {each.turn} of {each.task_id}: {each.text} by {plain(each.by)}")
        for each in self._follow.ended():
            if not each.superseded:
                score = each.outcome.score
                typer.echo(
                    f"= {each.task_id} {each.slot}: {each.outcome.status.value} {'' if score is None else score}"
                )

    def _show(self, each: Any) -> None:
        from silva.guide.follow import in_words

        typer.echo(f"  {in_words(each)}")

    def _waiting(self, happened: Any) -> Any:
        from silva.guide.event import waiting_of

        return waiting_of(happened)

    def _tell_waiting(self, one: Any) -> None:
        from silva.guide.follow import plain

        reasons = plain(", ".join(one.reasons))
        typer.echo(f"? turn {one.turn} of {one.task_id} waits for approval ({reasons}): {plain(one.action)}")

    def _obey(self, line: str) -> str:
        """Carry out one line: "said", "quit" or "failed"."""
        from silva.guide import post
        from silva.guide.command import HELP, command_of

        try:
            order = command_of(line)
            if order is None:
                return "said"
            if order.kind == "quit":
                return "quit"
            if order.kind == "help":
                typer.echo(HELP)
            elif order.kind == "to":
                self._turn_to(order.more["to"])
            else:
                for said in post(self._lake, self._run, order.kind, self._by, to=self._whom(order.kind), **order.more):
                    typer.echo(f"> {order.kind} ({said.id})")
        except SilvaError as error:
            typer.echo(f"! {error}", err=True)
            return "failed"
        return "said"

    def _whom(self, kind: str) -> str:
        from silva.guide.follow import one_of

        if self._to != "*" or kind not in ("back", "edit", "good", "bad"):
            return self._to
        one = one_of(self._follow.live)
        if one is None:
            raise UsageError(f"/{kind} is for one trajectory: say which with /to ({len(self._follow.live)} at work)")
        return one

    def _turn_to(self, to: str) -> None:
        if to:
            self._to = self._follow.to = to
        for name, task in sorted(self._follow.live.items(), key=lambda each: each[1])[:50]:
            typer.echo(f"  {name[:12]} {task}")
        typer.echo(f"speaking to {self._to}")


def _typed() -> Iterator[str]:
    """Lines of the standard input. Its file is read past Python's buffer: a thread that waits in that one holds a lock
    which an interpreter that ends wants."""
    try:
        file = sys.stdin.fileno()
    except (OSError, ValueError):  # no file, as in a test
        yield from sys.stdin
        return
    rest = b""
    while data := os.read(file, 65536):
        *lines, rest = (rest + data).split(b"\n")
        yield from (line.decode(errors="replace") for line in lines)
    if rest:
        yield rest.decode(errors="replace")

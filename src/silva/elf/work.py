"""What the runner lends a tool for one step: where the lake is, a folder to write into, a model, and a meter.

A tool that writes a file writes it into `folder` alone; what it spends on a model it announces before and tells after,
so that a budget holds even where the process is killed in between.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from silva.errors import UsageError
from silva.tree import Record

FILE = "spent.jsonl"


class Spent(Record, frozen=True, kw_only=True):
    """Tokens and US dollars of one call to a model: announced first as the most it can be (`sure` false), then as it
    was. `call` tells which call it is."""

    call: int
    tokens: int = 0
    usd: float = 0.0
    sure: bool = False


class Meter:
    """What a job has spent on models, in a file of its folder: a line before and a line after each call.

    A call that was announced and never told counts as announced. Lines are handed to the system at once, so that the
    death of the process loses none of them.
    """

    def __init__(self, path: Path, tokens: int, usd: float) -> None:
        self._path, self._most = path, (tokens, usd)

    def spent(self) -> tuple[int, float]:
        """Tokens and US dollars so far."""
        calls = self._calls()
        return sum(each.tokens for each in calls.values()), sum(each.usd for each in calls.values())

    def announce(self, tokens: int, usd: float = 0.0) -> int:
        """Say what a call may take at most; the number to tell its end by.

        Raises:
            UsageError: the budget does not suffice; the call must not be made.
        """
        calls = self._calls()
        used = sum(each.tokens for each in calls.values()), sum(each.usd for each in calls.values())
        for name, have, more, most in zip(("tokens", "US dollars"), used, (tokens, usd), self._most, strict=True):
            if have + more > most:
                raise UsageError(
                    f"budget: {have:g} of {most:g} {name} are spent and the next call may take {more:g}; "
                    "nothing was asked; give a larger budget and resume"
                )
        call = max(calls, default=0) + 1
        self._write(Spent(call=call, tokens=tokens, usd=usd))
        return call

    def tell(self, call: int, tokens: int, usd: float = 0.0) -> None:
        """Say what a call has taken."""
        self._write(Spent(call=call, tokens=tokens, usd=usd, sure=True))

    def _calls(self) -> dict[int, Spent]:
        found: dict[int, Spent] = {}
        if self._path.exists():
            for line in self._path.read_bytes().split(b"\n")[:-1]:
                each = msgspec.json.decode(line, type=Spent)
                found[each.call] = each
        return found

    def _write(self, spent: Spent) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(descriptor, msgspec.json.encode(spent) + b"\n")
        finally:
            os.close(descriptor)


@dataclass(frozen=True, slots=True)
class Work:
    """What one step is lent. `lake`: where, "" where none is; `folder`: of the job's files; `model`: which may be
    asked, "" for none; `home`: of the engine, for what is kept beyond a job; `meter`: what models cost;
    `replay`: the folder of recorded replies that a tool of the network must take instead, "" for the network."""

    lake: str
    folder: Path
    model: str = ""
    home: Path = field(default_factory=Path)
    meter: Meter | None = None
    replay: str = ""

    def file(self, name: str) -> Path:
        """Where a file of that name is written.

        Raises:
            UsageError: the name leads out of the job's folder.
        """
        path = (self.folder / name).resolve()
        if not path.is_relative_to(self.folder.resolve()) or path == self.folder.resolve():
            raise UsageError(f"file {name!r}: leads out of the job's folder; give a plain name")
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def needs_model(self, who: str) -> str:
        """The model that may be asked.

        Raises:
            UsageError: none was given.
        """
        if not self.model:
            raise UsageError(f"{who} asks a model: name one with --model, such as http://127.0.0.1:8000/v1#NAME")
        return self.model

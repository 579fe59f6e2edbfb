"""What became of words, and who waits: events that the engine tells and people's windows read.

    engine ─▶ one line, no waiting for the disk ─▶ FOLDER/RUN.events ─▶ readers, each with a cursor
    events ─▶ who waits for approval │ which words were heard, by whom

An event tells people; it decides nothing. What was said is in the mailbox, what was done in the lake.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from silva.errors import StoreError
from silva.guide.mailbox import name_of
from silva.tree import Record

Happening: TypeAlias = Literal["waiting", "decided", "heard", "undone", "back"]


class Event(Record, frozen=True, kw_only=True):
    """One thing that happened to a trajectory; `at` is Unix seconds, `turn` counts from 1.

    waiting: its action `node_id` (`action` as text) waits for approval, for `reasons`. decided: it does not any more;
    `text` is approve, reject, edit, stop or back, `by` whose word. heard: the word `word` of kind `text` was taken in;
    `node_id` is what it is about. undone: `word` could not be followed, `text` says why. back: the trajectory was left
    at `node_id`, the action of turn `turn`; the next attempt at its place goes on from there.
    """

    kind: Happening
    at: float
    run_id: str
    trajectory_id: str
    task_id: str
    index: int = 0
    attempt: int = 0
    turn: int = 0
    node_id: str = ""
    word: str = ""
    by: str = ""
    text: str = ""
    action: str = ""
    reasons: tuple[str, ...] = ()


class Waiting(Record, frozen=True, kw_only=True):
    """An agent that waits for approval of its action `node_id` since `since` (Unix seconds)."""

    trajectory_id: str
    task_id: str
    index: int
    attempt: int
    turn: int
    node_id: str
    action: str
    reasons: tuple[str, ...]
    since: float


class Events:
    """One run's events.

    Args:
        folder: where mailboxes of a lake lie.
        run_id: the run.
        start: where to begin to read, in bytes; what `place` was earlier.
    """

    def __init__(self, folder: str | Path, run_id: str, start: int = 0) -> None:
        self.run_id = run_id
        self.path = Path(folder) / f"{name_of(run_id)}.events"
        self.place = start
        self._file: int | None = None

    def tell(self, event: Event) -> None:
        """Write an event. It outlives this process at once, and the machine a little later.

        Raises:
            StoreError: it cannot be written.
        """
        try:
            if self._file is None:
                self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
                self._file = os.open(self.path, flags, 0o600)
                size = os.fstat(self._file).st_size
                if size and os.pread(self._file, 1, size - 1) != b"\n":
                    os.write(self._file, b"\n")  # ends what a process that died did not
            os.write(self._file, _encode(event) + b"\n")
        except OSError as error:
            raise StoreError(f"events {self.path.name}: cannot be written ({error.strerror})") from error

    def read(self) -> list[Event]:
        """What happened since the last call, in order; everything at first. A line that is none is passed over.

        Raises:
            StoreError: the file cannot be read.
        """
        try:
            if self.path.stat().st_size <= self.place:
                return []
            with self.path.open("rb") as file:
                file.seek(self.place)
                data = file.read()
        except FileNotFoundError:
            return []
        except OSError as error:
            raise StoreError(f"events {self.path.name}: cannot be read ({error.strerror})") from error
        whole = data[: data.rfind(b"\n") + 1]
        self.place += len(whole)
        found: list[Event] = []
        for line in whole.splitlines():
            try:
                found.append(_decode(line))
            except msgspec.MsgspecError:
                continue  # cut off by a process that died, and ended by the next
        return found


def waiting_of(events: Iterable[Event]) -> list[Waiting]:
    """Who waits for approval after these events, the longest first."""
    found: dict[str, Waiting] = {}
    for each in events:
        if each.kind == "waiting" and each.node_id not in found:
            found[each.node_id] = Waiting(
                trajectory_id=each.trajectory_id,
                task_id=each.task_id,
                index=each.index,
                attempt=each.attempt,
                turn=each.turn,
                node_id=each.node_id,
                action=each.action,
                reasons=each.reasons,
                since=each.at,
            )
        elif each.kind == "decided":
            found.pop(each.node_id, None)
    return list(found.values())


@dataclass(slots=True)
class Fate:
    """What became of a word: how many trajectories took it in, and why others could not follow it."""

    heard: int = 0
    undone: list[str] = field(default_factory=list[str])

    def shown(self) -> str:
        """In words."""
        parts = [f"heard by {self.heard}" if self.heard != 1 else "heard"] if self.heard else []
        return "; ".join([*parts, *(f"not done: {why}" for why in dict.fromkeys(self.undone))])


def became_of(events: Iterable[Event]) -> dict[str, Fate]:
    """What became of words, by their ids; those nobody has heard are not among them."""
    found: dict[str, Fate] = {}
    seen: set[tuple[str, str, str]] = set()
    for each in events:
        if each.kind not in ("heard", "undone", "back") or not each.word:
            continue
        kind = "undone" if each.kind == "undone" else "heard"
        if (each.word, each.trajectory_id, kind) in seen:
            continue
        seen.add((each.word, each.trajectory_id, kind))
        fate = found.setdefault(each.word, Fate())
        if kind == "undone":
            fate.undone.append(each.text)
        else:
            fate.heard += 1
    return found


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Event).decode

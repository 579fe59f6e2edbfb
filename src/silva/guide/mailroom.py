"""The mailroom of a running rollout: one mailbox, and what each of its trajectories has not heard yet.

    Mailbox.read ─▶ all words of the run ─▶ hear(trajectory): those meant for it, from where it left off
    tell(event) ─▶ Events: who waits, what was heard

It stands between many episodes and one file: a hundred of them that listen cost one `stat` each a turn.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from silva.envs.home import home
from silva.errors import StoreError
from silva.guide.event import Event, Events
from silva.guide.mailbox import Mailbox
from silva.guide.word import Word
from silva.lake import Lake, field
from silva.tree import Author


def folder_of(lake: str) -> Path:
    """Where the mailboxes of a lake lie: with this user's other state, whatever kind of place the lake is."""
    where = lake if "://" in lake else str(Path(lake).expanduser().resolve())
    return home() / "guide" / hashlib.sha256(where.encode()).hexdigest()[:16]


class Mailroom:
    """Gives each trajectory its words; see `silva.rollout.guided.Guidance`.

    Args:
        mailbox: of the run.
        lake: of a run that goes on: it is looked up there what was heard before. None for one that begins.
    """

    def __init__(self, mailbox: Mailbox, lake: str | None = None) -> None:
        self.mailbox = mailbox
        self.events = Events(mailbox.path.parent, mailbox.run_id)
        self._lake = lake
        self._recorded: frozenset[str] | None = None if lake is not None else frozenset()
        self._words: list[Word] = []
        self._heard: dict[str, int] = {}

    @classmethod
    def of(cls, lake: str, run_id: str, *, resume: bool = False) -> Mailroom:
        """The mailroom of a run that is about to begin, or to go on. What was said to it before it began counts; what
        was said to another of its name, in a lake that is no longer there, is put aside."""
        mailbox = Mailbox(folder_of(lake), run_id)
        if not resume:
            events = Events(mailbox.path.parent, run_id)
            if (events.path.exists() or mailbox.closed) and not _has(lake, run_id):
                for path in (mailbox.path, events.path):
                    if path.exists():
                        path.rename(path.with_name(f"{path.name}.{time.time_ns()}"))
            return cls(mailbox)
        mailbox.reopen()
        return cls(mailbox, lake)

    def hear(self, trajectory_id: str, task_id: str, formerly: Sequence[str] = ()) -> list[Word]:
        """What was said to a trajectory, or to earlier attempts at its place, since it was last asked.

        Raises:
            StoreError: the mailbox cannot be read.
        """
        self._words += self.mailbox.read()
        start = self._heard.get(trajectory_id, 0)
        if start == len(self._words):
            return []
        self._heard[trajectory_id] = len(self._words)
        return [word for word in self._words[start:] if word.reaches(trajectory_id, task_id, formerly)]

    def tell(self, kind: str, **facts: Any) -> None:
        """Write an event of a trajectory (`silva.guide.event.Event`).

        Raises:
            StoreError: it cannot be written.
        """
        self.events.tell(Event(kind=kind, at=time.time(), run_id=self.mailbox.run_id, **facts))  # pyright: ignore[reportArgumentType]

    def recorded(self, id: str) -> bool:
        """Whether the lake had it when the run went on. It is read once, and only where something was said.

        Raises:
            StoreError: it cannot be read.
        """
        if self._recorded is None:
            self._recorded = frozenset(self._known())
        return id in self._recorded

    def _known(self) -> Iterator[str]:
        assert self._lake is not None
        run = self.mailbox.run_id
        with Lake.open(self._lake, mode="read") as opened:
            yield from (each.id for each in opened.supervisions(run_id=run) if each.source == "person")
            for node in opened.nodes(run_id=run, where=field("author") == Author.PERSON.value):
                yield from node.attributes.get("words", ())


def _has(lake: str, run_id: str) -> bool:
    try:
        with Lake.open(lake, mode="read") as opened:
            return opened.run(run_id) is not None
    except StoreError:
        return False  # there is no lake yet

"""The thread that looks at the journal, and hands on what is new.

    every LOOK seconds: Follower.fresh ─▶ Forest.take, Trees.take ─▶ Streams.post
                        mailboxes of the runs that somebody looks at ─▶ Streams.post_words
    every PRESENCE seconds: heartbeats and events of the runs under way ─▶ whose state has changed ─▶ Streams.post

It reads; the engine that writes is another process and never waits for it. What cannot be read is told on every page
(`trouble`) and tried again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from silva.console.attempt import RUNNING, Attempt, row
from silva.console.forest import Change, Forest
from silva.console.presence import Presence
from silva.console.stream import Streams
from silva.console.trees import Trees
from silva.errors import SilvaError
from silva.guide import Mailbox
from silva.guide.mailroom import folder_of
from silva.lake import Lake, field
from silva.lake.filters import literal
from silva.lake.follower import Follower
from silva.lake.heartbeat import beats_of
from silva.lake.place import place
from silva.tree import Node
from silva.tree.role import attempt_of

LOOK = 0.1
"""Seconds between looks."""

PRESENCE = 1.0
"""Seconds between looks at who is there."""

PATIENCE = 2.0
"""Seconds until the next look where one failed."""

_TREES = 200


class Watch:
    """Keeps a forest and the open trees of a lake up to date.

    Args:
        lake: open to read.
        trees: the trees pages look at.
        streams: whom to tell.
    """

    def __init__(self, lake: Lake, trees: Trees, streams: Streams) -> None:
        self._lake, self._trees, self._streams = lake, trees, streams
        self._follower = Follower(place(lake.location).journal)
        self._mail: dict[str, tuple[float, ...]] = {}
        self._mail_folder = folder_of(lake.location)
        self.presence = Presence(beats_of(lake.location), self._mail_folder)
        self._states: dict[str, str] = {}
        self._present = 0.0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="silva-console-watch", daemon=True)
        self.lock = threading.RLock()
        self.forest = Forest()
        self.trouble = ""
        self.looked = 0.0

    def start(self) -> Watch:
        """Read what there is, then look on in a thread.

        Raises:
            StoreError: the lake cannot be read.
        """
        self._load()
        self._look_who_is_there()
        self._thread.start()
        return self

    def stop(self) -> None:
        """Look no more."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(5.0)

    def look(self) -> bool:
        """Take in what was written since the last look; whether there was anything."""
        fresh = self._follower.fresh()
        if self._follower.missed:
            self._load()
            return True
        if not fresh:
            return False
        with self.lock:
            change = self.forest.take(fresh)
        self._trees.take(change.nodes)
        self._streams.post(change)
        return True

    def _load(self) -> None:
        """Make the picture anew: the journal first, then the tables, so that nothing falls between them."""
        follower = Follower(place(self._lake.location).journal)
        fresh = follower.fresh()
        forest = Forest()
        forest.take(self._lake.tasks())
        forest.take(self._lake.runs())
        forest.take(self._lake.trajectories())
        for run in [run.id for run in forest.runs.values() if not run.finished or run.status == "stopped"]:
            forest.take(self._under_way(run, forest))
        forest.take(fresh)
        with self.lock:
            forest.epoch += self.forest.epoch + 1
            self.forest, before, self._follower = forest, self._follower, follower
        before.close()
        self._trees.forget()
        self._streams.post_stale()

    def _under_way(self, run: str, forest: Forest) -> list[Node]:
        """The nodes of a run's attempts that have not ended; of a long run those that have are by far the most."""
        query = f"select distinct tree_id, slot from nodes where run_id = {literal(run)} and slot <> ''"
        places = {(each["tree_id"], each["slot"]) for each in self._lake.sql(query).to_pylist()}
        places = {(tree, slot) for tree, slot in places if attempt_of(slot) == slot}
        places -= {(tree, slot) for _, tree, slot in forest.by_run.get(run, {})}
        found: list[Node] = []
        trees = sorted({tree for tree, _ in places})
        for start in range(0, len(trees), _TREES):
            some = trees[start : start + _TREES]
            slots = sorted({slot for tree, slot in places if tree in some})
            found += self._lake.nodes(run_id=run, where=field("tree_id").is_in(some) & field("slot").is_in(slots))
        found = [node for node in found if (node.tree_id, node.slot) in places]
        return sorted(found, key=lambda node: (node.started, node.depth))

    def _run(self) -> None:
        while not self._ended.wait(LOOK):
            trouble = self._tried(self._step)
            if trouble:
                self._ended.wait(PATIENCE)
            self.trouble = trouble
            self.looked = time.time()

    def _step(self) -> None:
        self.look()
        self._look_at_mail()
        self._look_who_is_there()

    def told(self, attempt: Attempt) -> dict[str, Any]:
        """An attempt's row, with the state it is in and why."""
        state, why = self.presence.state(self.forest.runs.get(attempt.run), attempt, time.time())
        return {**row(attempt), "state": state, "why": why} if state else row(attempt)

    def _look_who_is_there(self) -> None:
        now = time.time()
        if now - self._present < PRESENCE:
            return
        self._present = now
        with self.lock:
            runs = list(self.forest.runs.values())
            under_way = [
                (run, attempt)
                for run in runs
                if not run.finished
                for attempt in self.forest.by_run.get(run.id, {}).values()
                if attempt.status == RUNNING
            ]
        moved = self.presence.look(runs)
        states = {attempt.id: self.presence.state(run, attempt, now)[0] for run, attempt in under_way}
        changed = [each for _, each in under_way if states[each.id] != self._states.get(each.id, "working")]
        self._states = states
        if changed:
            rows = {each.key: each for each in changed}
            self._streams.post(Change(runs={each.run for each in changed}, attempts=rows))
        if moved:
            self._streams.post_inbox()

    def _look_at_mail(self) -> None:
        for run in self._streams.watched():
            path = Mailbox(self._mail_folder, run).path
            state = tuple(_moved(path.with_suffix(suffix)) for suffix in (".words", ".events"))
            if self._mail.get(run, (0.0, 0.0)) != state:
                self._mail[run] = state
                self._streams.post_words(run)

    @staticmethod
    def _tried(step: Callable[[], None]) -> str:
        try:
            step()
        except (SilvaError, OSError) as error:
            return str(error)
        return ""


def _moved(path: Path) -> float:
    try:
        found = path.stat()
    except OSError:
        return 0.0
    return found.st_mtime + found.st_size

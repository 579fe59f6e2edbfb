"""Whether agents are at work, and who waits for a person: the state of every attempt under way.

    heartbeat (is the run there?) ┐
    events (waits? paused?)       ├─▶ Presence.look, every second ─▶ states_of, inbox
    the journal (when last moved) ┘

working   it takes turns                         waiting   its action waits for a person's approval
paused    a person had it wait                   stalled   its run is there, and nothing came of it for long
dead      no heartbeat, and its process is gone  left      its run ended and left it unfinished
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from silva.console.attempt import CUT, RUNNING, Attempt
from silva.guide.event import Event, Events, Waiting, waiting_of
from silva.lake.heartbeat import Beat, read_beat
from silva.tree import Run

STALL = 120.0
"""Seconds without a turn after which an agent counts as stalled, where the run's deadlines for a model's answer and an
environment's are no longer than that together."""
STATES = ("waiting", "stalled", "dead", "paused", "working", "left")
"""In the order in which a person is needed."""


@dataclass
class Heard:
    """One run's heartbeat and what its events told so far: who waits (by node), and the last pause, resume or stop that
    each trajectory heard."""

    events: Events
    beat: Beat | None = None
    waiting: dict[str, Waiting] = field(default_factory=dict[str, Waiting])
    orders: dict[str, str] = field(default_factory=dict[str, str])

    def take(self, fresh: Iterable[Event]) -> bool:
        """Take in what happened; whether who waits or is paused has changed."""
        changed = False
        for each in fresh:
            if each.kind == "waiting":
                changed = True
                self.waiting.setdefault(each.node_id, waiting_of([each])[0])
            elif each.kind == "decided":
                changed |= self.waiting.pop(each.node_id, None) is not None
            elif each.kind == "heard" and each.text in ("pause", "resume", "stop"):
                changed = True
                self.orders[each.trajectory_id] = each.text
            elif each.kind == "back":
                changed = True
                self.waiting = {id: one for id, one in self.waiting.items() if one.trajectory_id != each.trajectory_id}
        return changed


class Presence:
    """What is known of the runs under way. Safe to use from several threads.

    Args:
        beats: the folder of heartbeats.
        mail: the folder of the lake's mailboxes and events.
    """

    def __init__(self, beats: Path, mail: Path) -> None:
        self._beats, self._mail = beats, mail
        self._runs: dict[str, Heard] = {}
        self._mutex = threading.Lock()

    def look(self, runs: Iterable[Run]) -> set[str]:
        """Look at heartbeats and events of the runs that have not ended; the names of those where something changed.

        Raises:
            StoreError: events cannot be read.
        """
        moved: set[str] = set()
        going = {run.id for run in runs if not run.finished}
        with self._mutex:
            for id in [id for id in self._runs if id not in going]:
                if self._runs.pop(id).waiting:
                    moved.add(id)
            for id in going:
                heard = self._runs.get(id)
                if heard is None:
                    heard = self._runs[id] = Heard(Events(self._mail, id))
                heard.beat = read_beat(self._beats, id)
                if heard.take(heard.events.read()):
                    moved.add(id)
        return moved

    def state(self, run: Run | None, attempt: Attempt, now: float) -> tuple[str, str]:
        """The state of an attempt and why, in words; ("", "") of one that has ended."""
        if attempt.status == CUT:
            return "left", "its run ended before it did: silva rollout --resume goes on"
        if attempt.status != RUNNING or run is None:
            return "", ""
        with self._mutex:
            heard = self._runs.get(run.id)
            beat = heard.beat if heard is not None else None
            waits = heard is not None and any(one.trajectory_id == attempt.id for one in heard.waiting.values())
            paused = heard is not None and heard.orders.get(attempt.id) == "pause"
        if beat is not None and beat.old(now):
            silent = f"no heartbeat for {_span(now - beat.at)}"
            gone = beat.gone()
            if gone:
                return "dead", f"{silent}, and process {beat.pid} is gone: silva rollout --resume goes on"
            return (
                "stalled",
                f"{silent}; its process is {'elsewhere' if gone is None else 'there, but does not answer'}",
            )
        if waits:
            return "waiting", "its action waits for approval"
        if paused:
            return "paused", "a person had it pause"
        if now - attempt.moved > stall_of(run):
            return "stalled", f"no turn for {_span(now - attempt.moved)}" + (
                "" if beat else ", and no heartbeat is known"
            )
        return "working", ""

    def waiting(self) -> list[tuple[str, Waiting]]:
        """Who waits for approval in any run under way, with its run; the longest first."""
        with self._mutex:
            found = [(id, one) for id, heard in self._runs.items() for one in heard.waiting.values()]
        return sorted(found, key=lambda each: each[1].since)


def stall_of(run: Run) -> float:
    """Seconds without a turn after which an agent of a run counts as stalled."""
    deadlines: dict[str, Any] = run.config.get("deadlines") or {}
    known = [value for name in ("model", "environment") if isinstance(value := deadlines.get(name), int | float)]
    return max(STALL, float(sum(known)))


def counted(presence: Presence, run: Run, attempts: Iterable[Attempt], now: float | None = None) -> dict[str, int]:
    """How many attempts of a run are in each state."""
    when = time.time() if now is None else now
    found: dict[str, int] = {state: 0 for state in STATES}
    for each in attempts:
        state, _ = presence.state(run, each, when)
        if state and not each.superseded:
            found[state] += 1
    return {state: count for state, count in found.items() if count}


def _span(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.0f} h"

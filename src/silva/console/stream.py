"""What a browser is told as it happens: small differences, never more waiting than a page can show.

    Watch ─▶ Streams.tell(change) ─▶ each Stream: the rows and nodes that its page looks at ─▶ server-sent events

A row that moves ten times while a browser is slow waits once, in its last state. Where more nodes wait than a page
shows at a time, they are dropped and the page is told to ask again: a browser that was gone for an hour costs nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from silva.console.attempt import Attempt, row
from silva.console.forest import Change
from silva.console.view import line

MOST_NODES = 400
"""Nodes that wait for one browser."""

GATHER = 0.05
"""Seconds in which changes are gathered into one event."""

_encode = msgspec.json.Encoder().encode


class Stream:
    """One browser's page. `run`, `tree`: what it looks at ("" for none; `run` "*": which runs move)."""

    def __init__(self, run: str, tree: str, told: Callable[[Attempt], dict[str, Any]] = row) -> None:
        self.run, self.tree, self._told = run, tree, told
        self._inbox = False
        self._rows: dict[Any, dict[str, Any]] = {}
        self._runs: set[str] = set()
        self._nodes: list[dict[str, Any]] = []
        self._judged: list[dict[str, Any]] = []
        self._words = False
        self._stale = False
        self._news = asyncio.Event()

    def tell(self, change: Change) -> None:
        """Take what changed; from the loop's thread."""
        for key, attempt in change.attempts.items():
            if self.run == attempt.run or attempt.tree == self.tree:
                self._rows[key] = self._told(attempt)
        self._runs |= change.runs if self.run == "*" else change.runs & {self.run}
        if self.tree:
            self._nodes += [line(node) for node in change.nodes if node.tree_id == self.tree]
            self._judged += [
                {"node": each.node_id, "verdict": each.verdict, "by": each.by, "source": each.source}
                for each in change.supervisions
                if each.run_id == self.run
            ]
            if len(self._nodes) > MOST_NODES:
                self.stale()
        if self._rows or self._runs or self._nodes or self._judged:
            self._news.set()

    def words(self) -> None:
        """Something was said to the run, or an agent waits."""
        self._words = True
        self._news.set()

    def inbox(self) -> None:
        """Who waits for a person has changed, in some run."""
        self._inbox = True
        self._news.set()

    def stale(self) -> None:
        """What was told has gaps: the page must ask again."""
        self._nodes, self._judged, self._stale = [], [], True
        self._news.set()

    async def next(self, seconds: float) -> bytes | None:
        """The next event, or None when nothing happened for so long."""
        try:
            await asyncio.wait_for(self._news.wait(), seconds)
        except TimeoutError:
            return None
        await asyncio.sleep(GATHER)
        self._news.clear()
        told: dict[str, Any] = {}
        if self._stale:
            told["stale"] = True
        if self._runs:
            told["runs"] = sorted(self._runs)
        if self._rows:
            told["rows"] = list(self._rows.values())
        if self._nodes:
            told["nodes"] = self._nodes
        if self._judged:
            told["judged"] = self._judged
        if self._words:
            told["words"] = True
        if self._inbox:
            told["inbox"] = True
        self._rows, self._runs, self._nodes, self._judged = {}, set(), [], []
        self._stale = self._words = self._inbox = False
        return b"data: " + _encode(told) + b"\n\n"


class Streams:
    """All of them. Use from the loop's thread, but for `post`. `told` makes the row of an attempt."""

    def __init__(self) -> None:
        self.told: Callable[[Attempt], dict[str, Any]] = row
        self._streams: set[Stream] = set()
        self._loop: asyncio.AbstractEventLoop | None = None

    def begin(self, loop: asyncio.AbstractEventLoop) -> None:
        """Say in which loop streams are told."""
        self._loop = loop

    def post(self, change: Change) -> None:
        """Tell everybody, from any thread."""
        if self._loop is not None and self._streams:
            self._loop.call_soon_threadsafe(self._tell, change)

    def post_words(self, run: str) -> None:
        """Tell those who look at a run that something was said, from any thread."""
        if self._loop is not None and self._streams:
            self._loop.call_soon_threadsafe(self._words, run)

    def post_inbox(self) -> None:
        """Tell everybody that who waits for a person has changed, from any thread."""
        if self._loop is not None and self._streams:
            self._loop.call_soon_threadsafe(self._waits)

    def post_stale(self) -> None:
        """Tell everybody to ask again, from any thread."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._stale)

    def watched(self) -> set[str]:
        """The runs that somebody looks at by name."""
        return {stream.run for stream in tuple(self._streams) if stream.run not in ("", "*")}

    def open(self, run: str, tree: str) -> Stream:
        """A new browser page."""
        stream = Stream(run, tree, self.told)
        self._streams.add(stream)
        return stream

    def close(self, stream: Stream) -> None:
        """It has gone."""
        self._streams.discard(stream)

    def _tell(self, change: Change) -> None:
        for stream in self._streams:
            stream.tell(change)

    def _words(self, run: str) -> None:
        for stream in self._streams:
            if stream.run == run:
                stream.words()

    def _waits(self) -> None:
        for stream in self._streams:
            stream.inbox()

    def _stale(self) -> None:
        for stream in self._streams:
            stream.stale()

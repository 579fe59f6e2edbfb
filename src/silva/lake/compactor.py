"""The compactor: sealed segments to tables, oldest first, one at a time, by the lake's one writer.

    sealed segment ──▶ rows ──▶ one merge per table (atomic, then settled) ──▶ the segment's file is removed

In a thread of this process, which gives way to what runs beside it, or `apart`, in a process of its own: what a server
whose event loop is busy wants.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path

from silva.errors import StoreError
from silva.lake.apart import Apart
from silva.lake.compaction import compact
from silva.lake.segment import segments
from silva.lake.tables import Tables

log = logging.getLogger(__name__)

PAUSE = 0.002
"""Seconds the thread gives way between columns, so that an event loop beside it hardly notices it."""
GENTLE_BYTES = 32 << 20
"""Larger segments come from bulk writing: then the thread does not give way, or it would fall behind."""
WAITING = 4
"""With more segments waiting, a process of its own does not rest, or it would fall behind."""


class Compactor:
    """Turns sealed segments into rows, on call (`drain`) and in a thread of its own (`wake`).

    Args:
        folder: the journal's folder.
        tables: where rows go.
        where: the lake's name in messages.
        check: called before each segment; raises when this process may no longer write.
        apart: a process that does the thread's work; None does it here. What is awaited is always done here: whoever
            waits for the tables keeps no loop running, and a process takes seconds to start.
    """

    def __init__(
        self,
        folder: Path,
        tables: Tables,
        where: str,
        check: Callable[[], None] = lambda: None,
        apart: Apart | None = None,
    ) -> None:
        self._folder, self._tables, self._where, self._check, self._apart = folder, tables, where, check, apart
        self._mutex = threading.Lock()
        self._wake = threading.Event()
        self._ended = self._awaited = self._gentle = False
        self.failure: str | None = None
        self._thread = threading.Thread(target=self._work, name="silva-compactor", daemon=True)
        self._thread.start()

    def wake(self, number: int = 0) -> None:
        """Ask the thread to look for sealed segments."""
        self._wake.set()

    def drain(self) -> int:
        """Compact every sealed segment now; return how many.

        Raises:
            StoreError: a segment is damaged, or a table cannot be written; the segment stays.
        """
        self._awaited = True
        try:
            return self._drain()
        finally:
            self._awaited = False

    def _drain(self) -> int:
        with self._mutex:
            done = 0
            sealed = [each for each in segments(self._folder).items() if each[1].suffix == ".sealed"]
            for number, path in sealed:
                self._check()
                if self._apart is not None and not self._awaited:
                    self._apart.compact(number, gentle=len(sealed) - done <= WAITING)
                else:
                    self._gentle = path.stat().st_size < GENTLE_BYTES
                    compact(number, path, self._tables, self._where, self._give_way)
                done += 1
            self.failure = None
            return done

    def close(self) -> None:
        """End the thread; a segment in hand is finished first."""
        self._ended = True
        if self._apart is not None:
            self._apart.hurry()
        self._wake.set()
        self._thread.join()

    def end(self) -> None:
        """After `close` and a last `drain`: let go of what did the work."""
        if self._apart is not None:
            self._apart.close()

    def _work(self) -> None:
        while True:
            self._wake.wait()
            self._wake.clear()
            if self._ended:
                return
            try:
                self._drain()
            except StoreError as error:
                # The journal keeps the segment, so nothing is lost; `close`, `stats` and `doctor` say it again.
                if str(error) != self.failure:
                    log.warning("%s", error)
                self.failure = str(error)

    def _give_way(self) -> None:
        if self._gentle and not (self._awaited or self._ended):
            time.sleep(PAUSE)

"""Seconds that a job has taken while a process ran it, over all those processes.

The running process writes the sum into a file of sixteen bytes, four times a second. One that is killed has not written
its last quarter of a second: the next one counts it as taken, so a budget of time holds whatever is killed.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

FILE = "clock"
TICK = 0.25
"""Seconds between two writings."""
RESERVE = 0.25
"""Seconds of a budget that are kept back for ending what runs."""


class Clock:
    """The clock of a folder. Made when a process begins to run the job.

    Args:
        folder: of the job; it is there.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE
        self._base = taken(folder)
        self._began = self._written = time.monotonic()
        self._write(running=True)

    @property
    def seconds(self) -> float:
        """Seconds taken so far."""
        return self._base + time.monotonic() - self._began

    def tick(self) -> None:
        """Write the sum, if it is time to."""
        if time.monotonic() - self._written >= TICK:
            self._write(running=True)

    def stop(self) -> None:
        """Write the sum for the last time."""
        self._write(running=False)

    def _write(self, *, running: bool) -> None:
        self._written = time.monotonic()
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT, 0o644)
        try:
            os.pwrite(descriptor, f"{self.seconds:14.3f} {'r' if running else 'i'}".encode(), 0)
        finally:
            os.close(descriptor)


def taken(folder: Path) -> float:
    """Seconds that a job has taken, the unwritten tick of a process that was killed counted."""
    try:
        number, _, state = (folder / FILE).read_text().strip().rpartition(" ")
        return float(number) + (TICK * 2 if state == "r" else 0.0)
    except (OSError, ValueError):
        return 0.0

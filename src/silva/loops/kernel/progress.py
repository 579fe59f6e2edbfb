"""What the stage that runs has come to: so many of so many. Told while it runs, forgotten when it is over.

worker: tell(loop, stage, 34, 120, "episodes") ─▶ FOLDER/progress.json, once a second ─▶ `silva loop show`, pages
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import msgspec

from silva.lake.durable import refusals
from silva.loops.kernel.loop import Loop
from silva.loops.kernel.stage import Stage
from silva.tree import Record

FILE = "progress.json"
EVERY = 1.0
"""Seconds between two writings; what is told in between waits for the next."""


class Progress(Record, frozen=True, kw_only=True):
    """`done` of `total` (0: nobody knows of how many) `things` of a stage, at Unix seconds."""

    stage: str
    done: int
    total: int
    things: str
    at: float

    def __str__(self) -> str:
        of = f" of {self.total:,}" if self.total else ""
        return f"{self.done:,}{of} {self.things}"


def teller(loop: Loop[Any], stage: Stage, things: str) -> Callable[[int, int], None]:
    """What a stage calls with how much is done, and of how much, as often as it likes.

    Raises (when called):
        StoreError: the disk refused.
    """
    last = 0.0

    def tell(done: int, total: int) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last < EVERY and done < total:
            return
        last = now
        said = Progress(stage=stage.name, done=done, total=total, things=things, at=time.time())
        file = loop.folder / FILE
        fresh = file.with_name(f".{FILE}.{os.getpid()}")
        with refusals(
            f"loop {loop.folder}"
        ):  # renamed, so that a reader sees all or nothing; it need not outlast a crash
            fresh.write_bytes(msgspec.json.encode(said))
            fresh.replace(file)

    return tell


def progress(loop: Loop[Any]) -> Progress | None:
    """What the loop's present stage said last; None where it said nothing, or is over."""
    try:
        said = msgspec.json.decode((loop.folder / FILE).read_bytes(), type=Progress)
    except (FileNotFoundError, NotADirectoryError, msgspec.DecodeError):
        return None
    return None if said.stage in loop.ledger.over() else said

"""What a writer does first: put in order the segments that the last writer left.

A torn last write was never acknowledged and is cut off. Damage in the middle is not silently stepped over: the lake is
refused until `silva lake doctor --repair` has set the damaged file aside and saved what is whole in it.
"""

from __future__ import annotations

import os
from pathlib import Path

from silva.errors import StoreError
from silva.lake.durable import refusals, sync_folder, write_whole
from silva.lake.frames import MAGIC, Scan, parts, scan
from silva.lake.segment import seal, segments


def inspect(path: Path) -> Scan | None:
    """What a segment file holds; None for one that a writer had only begun."""
    data = path.read_bytes()
    if len(data) < len(MAGIC) and MAGIC.startswith(data):
        return None
    return scan(data, len(MAGIC) if data.startswith(MAGIC) else 0)


def begun(path: Path, found: Scan) -> int:
    """How many bytes of a batch that was never acknowledged are at the end of an open segment, which may have zeros
    behind them."""
    return len(path.read_bytes()[found.damage[0].start :].rstrip(b"\0"))


def recover(folder: Path, where: str) -> int:
    """Cut torn ends off, seal what was left open; return the highest number of a segment (0: none).

    Raises:
        StoreError: a segment is damaged in the middle, or the folder cannot be written.
    """
    newest = 0
    with refusals(where):
        for number, path in segments(folder).items():
            newest = max(newest, number)
            found = inspect(path)
            if found is not None and (path.suffix == ".sealed" or not found.torn):
                if found.damage:
                    raise damaged(where, number, found)
                continue
            if found is None or not found.payloads:
                path.unlink()
                continue
            if found.damage:
                os.truncate(path, found.damage[0].start)
            seal(path)
        if folder.is_dir():
            sync_folder(folder)
    return newest


def damaged(where: str, number: int, found: Scan) -> StoreError:
    """The one line for a damaged segment."""
    at = found.damage[0].start
    return StoreError(
        f"lake {where}: journal segment {number} is damaged at byte {at}; run `silva lake doctor --repair`"
    )


def salvage(path: Path, quarantine: Path) -> int:
    """Set a damaged segment aside under `quarantine` and keep its whole frames in its place; return how many."""
    found = inspect(path)
    write_whole(quarantine / f"{path.name}.{path.stat().st_mtime_ns}", path.read_bytes())
    payloads = [] if found is None else found.payloads
    target = path.with_suffix(".sealed")
    if payloads:
        write_whole(target, MAGIC + b"".join(parts(payloads)))
    else:
        target.unlink(missing_ok=True)
    if path != target:
        path.unlink()
    sync_folder(path.parent)
    return len(payloads)

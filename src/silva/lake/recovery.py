"""What a writer does first: put in order the segments that the last writer left.

An end that is no whole batch is cut off, and its bytes are set aside. Where room had been laid out for more than was
written, its writer's end interrupted the write, which was never acknowledged; else it looks the same as acknowledged
records that somebody cut open. Damage in the middle is not
silently stepped over: the lake is refused until `silva lake doctor --repair` has set the damaged file aside and saved
what is whole in it.
"""

from __future__ import annotations

import os
from pathlib import Path

from silva.errors import StoreError
from silva.lake.durable import refusals, sync_folder, write_whole
from silva.lake.frames import MAGIC, Scan, parts, scan, unfinished
from silva.lake.segment import seal, segments

QUARANTINE = "quarantine"
"""The folder beside the journal for bytes that are no records any more."""
END = ".end."
"""What the name of an end that was cut off has behind its segment's number."""
UNFINISHED = ".unfinished."
"""The same, of an end that was never acknowledged."""


def inspect(path: Path) -> Scan | None:
    """What a segment file holds; None for one that a writer had only begun."""
    data = path.read_bytes()
    if len(data) < len(MAGIC) and MAGIC.startswith(data):
        return None
    return scan(data, len(MAGIC) if data.startswith(MAGIC) else 0)


def begun(path: Path, found: Scan) -> bytes:
    """The bytes at the end of an open segment that are no whole batch, without the zeros that may stand behind them."""
    return path.read_bytes()[found.damage[0].start :].rstrip(b"\0")


def cut(path: Path, found: Scan) -> None:
    """Take the end off an open segment that is no whole batch; its bytes stay under `quarantine/`.

    Raises:
        OSError: the disk refuses.
    """
    data = begun(path, found)
    if data:
        why = UNFINISHED if interrupted(path, found) else END
        write_whole(path.parent.parent / QUARANTINE / f"{path.stem}{why}{path.stat().st_mtime_ns}", data)
    os.truncate(path, found.damage[0].start)


def interrupted(path: Path, found: Scan) -> bool:
    """Whether the end of an open segment is a write that its writer's end interrupted, so that it was acknowledged to
    nobody; False where the bytes do not tell."""
    return len(found.damage) == 1 and unfinished(path.read_bytes(), found.damage[0].start)


def ends(journal: Path) -> list[Path]:
    """The ends that were cut off the segments of a journal and set aside."""
    quarantine = journal.parent / QUARANTINE
    return sorted((*quarantine.glob(f"*{END}*"), *quarantine.glob(f"*{UNFINISHED}*")))


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
            if found is not None and found.damage:
                cut(path, found)
            if found is None or not found.payloads:
                path.unlink()
                continue
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


def salvage(path: Path) -> int:
    """Set a damaged segment aside under `quarantine/` and keep its whole frames in its place; return how many."""
    found = inspect(path)
    write_whole(path.parent.parent / QUARANTINE / f"{path.name}.{path.stat().st_mtime_ns}", path.read_bytes())
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

"""What the pages of the loops ask: which loops there are, and one of them as it stands.

    folders ─▶ loops by an id of the console's own      ledger, progress.json, report.json ─▶ silva.loops.kernel.seen

A loop's folder is that around the lake, and those named when the console was begun, or directly below them. A page
never names a folder: it asks by id, and only what was found has one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from silva.console.diff import unified
from silva.console.reading import Reading
from silva.console.view import text_of
from silva.errors import SilvaError, UsageError
from silva.lake import field
from silva.loops.kernel.kind import Kind
from silva.loops.kernel.kinds import read_loop
from silva.loops.kernel.ledger import FILE as LEDGER
from silva.loops.kernel.loop import CONFIG, REPORT, Loop
from silva.loops.kernel.seen import parts, shown, stages, state
from silva.loops.kernel.shown import FILE as SHOWN
from silva.loops.kernel.shown import MOST_CHARS, Shown, text

MOST_LOOPS = 200
"""Loops of the list."""
MOST_FOLDERS = 1_000
"""Folders below one that was named which are looked at."""
MOST_TASKS = 500
"""Tasks born that a page is given; the report has more."""
MOST_PAIRS = 200
"""Pairs of steps that a page is given."""
MOST_VERSIONS = 100
"""Versions of code that a page is given, the latest."""
MOST_ROWS = 200
"""Rows of a table that a page is given."""
MOST_SERIES = 24
"""Series of a curve."""
STEP_CHARS = 600
"""Characters of a step of a pair."""


class Loops:
    """The loops that a console shows.

    Args:
        reading: its lake.
        places: folders of loops, or folders that hold some.
    """

    def __init__(self, reading: Reading, places: Iterable[Path] = ()) -> None:
        self._reading = reading
        own = [] if "://" in reading.lake.location else [Path(reading.lake.location).resolve().parent]
        self._own, self._places = own, [each.resolve() for each in places]

    def folders(self) -> dict[str, Path]:
        """The folder of each loop, by its id."""
        found = [each for each in self._own if (each / CONFIG).is_file()]
        for place in self._places:
            if (place / CONFIG).is_file():
                found.append(place)
            elif place.is_dir():
                below = sorted(place.iterdir())[:MOST_FOLDERS]
                found += [each for each in below if (each / CONFIG).is_file()]
        return {_id(each): each for each in dict.fromkeys(found[:MOST_LOOPS])}

    def open(self, id: str) -> tuple[Kind[Any], Loop[Any]]:
        """The loop of an id.

        Raises:
            UsageError: there is none, or its kind is not installed.
            StoreError: what its folder holds is damaged.
        """
        folder = self.folders().get(id)
        if folder is None:
            raise UsageError(f"there is no loop {id[:40]!r} here; silva console --loop FOLDER names one")
        return read_loop(folder)

    def every(self) -> list[dict[str, Any]]:
        """A line for each, the one that moved last first; of one that cannot be read, `fault` says why."""
        return sorted(
            (self._line(id, folder) for id, folder in self.folders().items()), key=lambda each: -each["moved"]
        )

    def one(self, id: str, seen: str = "") -> dict[str, Any]:
        """A loop: its stages, where it stands, and what it shows, each diff as lines.

        Args:
            id: of the loop.
            seen: `look` of the answer before; what it shows is left out where nothing of that has changed.

        Raises:
            UsageError, StoreError: as `open`.
        """
        kind, loop = self.open(id)
        rows = stages(kind, loop)
        for row in rows:
            row["outputs"] = text(row["outputs"]) if row["outputs"] else ""
        look = _look(loop.folder)
        made = {
            **self._head(id, kind, loop),
            "words": list(kind.standing(loop).words),
            "stages": rows,
            "report": (loop.folder / REPORT).exists(),
            "look": look,
        }
        return made if seen == look else {**made, "shown": self._shown(shown(kind, loop))}

    def _shown(self, found: Shown) -> dict[str, Any]:
        made = parts(found)
        made["counts"] = {"tasks": len(found.tasks), "pairs": len(found.pairs), "versions": len(found.versions)}
        made["tasks"] = made["tasks"][:MOST_TASKS]
        made["pairs"] = self._pairs(found)
        made["versions"] = made["versions"][-MOST_VERSIONS:]
        for each in made["versions"]:
            each["diff"] = unified(each["diff"])
        for each in made["tables"]:
            each["of"], each["rows"] = len(each["rows"]), each["rows"][:MOST_ROWS]
        for each in made["curves"]:
            each["series"] = dict(list(each["series"].items())[:MOST_SERIES])
        return made

    def _line(self, id: str, folder: Path) -> dict[str, Any]:
        try:
            return self._head(id, *read_loop(folder))
        except SilvaError as error:
            return {"id": id, "name": folder.name, "fault": text(str(error), MOST_CHARS), "moved": 0.0}

    def _head(self, id: str, kind: Kind[Any], loop: Loop[Any]) -> dict[str, Any]:
        over = loop.ledger.over()
        last = loop.ledger.entries[-1] if loop.ledger.entries else None
        return {
            "id": id,
            "name": loop.folder.name,
            "folder": str(loop.folder),
            "kind": kind.name,
            "line": loop.config.line,
            "state": state(loop),
            "done": sum(stage.name in over for stage in loop.plan),
            "of": len(loop.plan),
            "stage": last.stage if last is not None else "",
            "moved": last.at if last is not None else 0.0,
            "seconds": sum(each.seconds for each in loop.ledger.entries),
            "here": Path(loop.lake).resolve() == Path(self._reading.lake.location).resolve(),
        }

    def _pairs(self, found: Shown) -> list[dict[str, Any]]:
        """The pairs with what their steps say, where this lake has them."""
        chosen = found.pairs[:MOST_PAIRS]
        said = self.steps({id for each in chosen for id in (each.chosen, each.rejected)})
        return [
            {
                "parent": each.parent,
                "chosen": said.get(each.chosen, each.chosen),
                "rejected": said.get(each.rejected, each.rejected),
                "verifier": each.verifier,
                "gap": each.gap,
                "more": each.more,
            }
            for each in chosen
        ]

    def steps(self, ids: set[str]) -> dict[str, str]:
        """What nodes of the lake say, by id; an id that is none of its nodes is left out."""
        nodes = self._reading.lake.nodes(where=field("id").is_in(sorted(ids))) if ids else []
        return {node.id: text(text_of(node), STEP_CHARS) for node in nodes}


def known(folders: Sequence[Path]) -> list[Path]:
    """Folders that were named, each of which must be there.

    Raises:
        UsageError: one is not.
    """
    for each in folders:
        if not each.is_dir():
            raise UsageError(f"--loop {each}: there is no such folder")
    return list(folders)


def _look(folder: Path) -> str:
    """What the files that a loop shows from look like now: another where one was written."""
    found = [folder / LEDGER, folder / SHOWN, *(folder / "rounds").glob("*/pairs.jsonl")]
    found += (folder / "rounds").glob("*/train/curves.jsonl")
    known = hashlib.sha256()
    for each in found:
        try:
            of = each.stat()
        except FileNotFoundError:
            continue
        known.update(f"{each} {of.st_size} {of.st_mtime_ns}\n".encode("utf-8", "surrogateescape"))
    return known.hexdigest()[:16]


def _id(folder: Path) -> str:
    return hashlib.sha256(str(folder).encode("utf-8", "surrogateescape")).hexdigest()[:12]

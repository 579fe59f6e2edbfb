"""Checkpoints that nobody can want any more: those that no node of any lake refers to, once they are old enough.

    folders of checkpoints ─▶ referred to? young? in use? ─▶ removed: checkpoints, then the layers and contents that
                                                               no other needs

What a run is about to write is safe three times over: a checkpoint in the making holds the folder's lock, a sandbox
says which layers it rests on, and what is younger than the time of grace is not touched.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from pathlib import Path

from silva.errors import UsageError
from silva.sandbox.contents import Contents
from silva.sandbox.layers import Layers, Snapshot
from silva.sandbox.owner import remove
from silva.sandbox.sharing import Removed

GRACE = 24 * 3600.0
"""Seconds that a checkpoint is left alone, unless told otherwise: an episode may be that long under way."""
_LEFTOVER = 3600.0


def collect(folder: Path, referred: Collection[str], *, grace: float = GRACE, dry: bool = False) -> Removed:
    """Remove a folder's checkpoints that are not among those referred to.

    Args:
        folder: where they are kept.
        referred: ids of those that stay.
        grace: seconds; what is younger stays.
        dry: only say what would go.

    Raises:
        UsageError: it is no folder of checkpoints.
        StoreError: it cannot be locked, or a checkpoint that stays is damaged so that its needs are not known.
    """
    kinds = [kind for name, kind in (("layers", Layers), ("objects", Contents)) if (folder / name).is_dir()]
    if not kinds:
        raise UsageError(f"{folder} holds no checkpoints: name the folder that --snapshots was given")
    before = time.time() - grace
    if not dry:
        for left in folder.glob(".removed-*"):  # of one that was killed while it removed
            if left.stat().st_mtime < time.time() - _LEFTOVER:
                remove(left)

    def doomed(snapshot: Snapshot) -> bool:
        return snapshot.id not in referred

    found = Removed()
    for kind in kinds:
        store = kind(folder)
        found = found + store.collect(doomed, before=before, dry=dry)
    return found


def folders(home: Path) -> list[Path]:
    """The folders of checkpoints that environments keep below Silva's home."""
    place = home / "snapshots"
    known = ("layers", "objects")
    return sorted(path for path in place.glob("*") if any((path / name).is_dir() for name in known))

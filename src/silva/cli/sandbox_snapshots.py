"""Checkpoints that `silva sandbox gc --lake` removes: which lakes refer to which, and what is said about it.

lakes ─▶ ids that their nodes refer to ─▶ folders of checkpoints ─▶ removed, or would be
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from silva.sandbox.sharing import Removed

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def collected(lakes: Sequence[str], given: Sequence[Path] | None, grace: float, dry: bool) -> dict[Path, Removed]:
    """Remove what no node of these lakes refers to, folder by folder.

    Args:
        lakes: where they are.
        given: folders of checkpoints; those that environments keep below Silva's home when left out.
        grace: seconds; what is younger stays.
        dry: only say what would go.

    Raises:
        UsageError: there is no such lake, or no such folder of checkpoints.
        StoreError: a lake or a folder cannot be read or locked; nothing of that folder was removed then.
    """
    from silva.envs.home import home
    from silva.sandbox.garbage import collect, folders

    names: set[str] = set()
    for each in lakes:
        names |= referred(each)
    places = list(given) if given else folders(home())
    return {place: collect(place, names, grace=grace, dry=dry) for place in places}


def referred(location: str) -> set[str]:
    """The ids of the snapshots that the nodes of a lake refer to, those still in its journal too."""
    from silva.lake import Lake

    with Lake.open(location, mode="read") as lake:
        found = lake.sql("select distinct snapshot_id from nodes where snapshot_id <> ''")
        return set(found.column("snapshot_id").to_pylist())


def said(found: Mapping[Path, Removed], older: str, dry: bool) -> list[str]:
    """One line for each folder."""
    lines: list[str] = []
    for place, of in found.items():
        went = "would be removed" if dry else "removed"
        parts = f"{of.checkpoints} checkpoints, {of.layers} layers, {of.contents} contents"
        line = f"{place.parent.name}/{place.name}: {parts} {went}, {of.bytes / (1 << 20):,.1f} MiB"
        lines.append(line + (f"; {of.young} more are younger than {older}" if of.young else ""))
    return lines


def span(text: str) -> float:
    """A length of time in seconds: 90s, 15m, 24h, 7d.

    Raises:
        UsageError: it is none.
    """
    from silva.errors import UsageError

    known = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd])", text.strip())
    if known is None:
        raise UsageError(f"--older {text!r}: write 90s, 15m, 24h or 7d")
    return float(known[1]) * _UNITS[known[2]]

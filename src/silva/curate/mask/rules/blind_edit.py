"""Blind edit: a file is changed whose content was not looked at since it last changed (APOLLO, appendix E)."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import PurePosixPath

from silva.curate.mask.kinds import Kinds
from silva.curate.mask.rule import Finding
from silva.curate.turn import Walk


class BlindEdit:
    """An edit of a file that no earlier turn has viewed, written whole, or been shown in words. Editing again without
    a look in between is blind too, where the first edit failed; where it succeeded its content is known. A copy of a
    known file is known."""

    name = "blind-edit"
    summary = "a file is edited that was not viewed before"

    def __init__(self, kinds: Kinds) -> None:
        self._kinds = kinds

    def find(self, walk: Walk) -> Iterable[Finding]:
        """See `Rule`."""
        known: set[str] = set()
        for turn in walk.turns:
            for call in turn.calls:
                # A command may copy a file, edit the copy, add a line to it and show what came of it.
                known |= {_name(new) for old, new in self._kinds.copied(call) if _known(_name(old), known)}
                shown = {_name(path) for path in self._kinds.viewed(call)}
                for path in sorted(self._kinds.edited(call)):
                    checked = _name(path) in shown and path in self._kinds.added(call)
                    if not checked and not _known(_name(path), known) and not _shown(walk, path):
                        yield Finding(turn, f"{path} is edited without a look at it before")
                        break
            for call in turn.calls:
                known |= {_name(path) for path in self._kinds.viewed(call) | self._kinds.written(call)}


def _name(path: str) -> str:
    """The last part: an agent may say `./a.py` once and `/workspace/a.py` next."""
    return PurePosixPath(path).name


def _known(name: str, known: set[str]) -> bool:
    return name in known or any(fnmatchcase(name, each) for each in known if "*" in each or "?" in each)


def _shown(walk: Walk, path: str) -> bool:
    """Whether the task itself quotes the file: its name, then a fenced block."""
    text = walk.task
    at = text.find(_name(path))
    return at >= 0 and "```" in text[at : at + 200]

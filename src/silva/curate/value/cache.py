"""Scores that are known already, by what they depend on and by what was scored.

    scorer.identity() (code, options, model) ─▶ one file · sample.key (its words) ─▶ one line in it: value, note

Nothing but the content counts: another data set of the same size, or the same set in another order, finds its own. A
file is SQLite's, so that several processes may use it at once and a kill loses one batch at most.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path

import platformdirs

from silva.curate.value.scorer import Score
from silva.errors import StoreError, UsageError

_ASKED_AT_ONCE = 500
_FORM = "2"
"""Goes up when what was kept before is not to be found any more: of few samples in form 1 some had another's score."""
_PATIENCE = 60.0
"""Seconds to wait for another process that writes."""


def cache_folder(given: str | None = None) -> Path:
    """Where scores are kept: the folder that is given, or the user's own cache."""
    return Path(given) if given else Path(platformdirs.user_cache_dir("silva")) / "scores"


class ScoreCache:
    """The known scores of one scorer.

    Args:
        folder: holds one file for each identity.
        name: of the scorer, for people who look into the folder.
        identity: what the scores depend on besides the sample.

    Raises:
        StoreError: the folder cannot be written, or the file is none of ours.
    """

    def __init__(self, folder: Path, name: str, identity: str) -> None:
        self.path = folder / f"{name}-{_FORM}-{identity}.sqlite"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(self.path, timeout=_PATIENCE)
            self._connection.execute("pragma journal_mode = wal")
            self._connection.execute("pragma synchronous = normal")
            self._connection.execute(
                "create table if not exists scores (key blob primary key, value real, note text) without rowid"
            )
        except (OSError, sqlite3.Error) as fault:
            raise self._refused(fault) from fault

    def close(self) -> None:
        """Let the file go."""
        self._connection.close()

    def known(self, keys: Sequence[str]) -> dict[str, Score]:
        """The scores of those keys that are known.

        Raises:
            StoreError: the file cannot be read.
        """
        found: dict[str, Score] = {}
        wanted = list(dict.fromkeys(keys))
        try:
            for begin in range(0, len(wanted), _ASKED_AT_ONCE):
                part = [bytes.fromhex(key) for key in wanted[begin : begin + _ASKED_AT_ONCE]]
                marks = ",".join("?" * len(part))
                rows = self._connection.execute(f"select key, value, note from scores where key in ({marks})", part)
                found.update((key.hex(), Score(value, note)) for key, value, note in rows)
        except sqlite3.Error as fault:
            raise self._refused(fault) from fault
        return found

    def add(self, scores: Iterable[tuple[str, Score]]) -> None:
        """Keep scores, durably; those that may not be kept are passed over.

        Raises:
            StoreError: the disk refused.
        """
        rows = [(bytes.fromhex(key), each.value, each.note) for key, each in scores if each.keep]
        try:
            with self._connection:
                self._connection.executemany("insert or replace into scores values (?, ?, ?)", rows)
        except sqlite3.Error as fault:
            raise self._refused(fault) from fault

    def _refused(self, fault: Exception) -> StoreError | UsageError:
        return StoreError(f"kept scores {self.path.name}: {fault}; name another folder with cache=FOLDER, or remove it")

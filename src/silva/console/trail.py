"""The trail: who did what, when, and how it went; a line a deed, on disk before the deed is answered.

{"at": 1790000000.1, "by": "ann", "role": "guide", "did": "say", "run": "night", "to": "*", "went": "ok", …}
"""

from __future__ import annotations

import json
import os
import threading
import time
from pathlib import Path
from typing import Any

from silva.errors import StoreError

MOST = 500
"""Deeds that are shown, the newest."""
_LONGEST = 2_000


class Trail:
    """A file that is only added to. Safe to use from several threads.

    Args:
        path: the file; made, readable to its owner alone, when the first deed is done.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._mutex = threading.Lock()

    def add(self, by: str, role: str, did: str, went: str, **facts: Any) -> None:
        """Add a deed.

        Raises:
            StoreError: it cannot be written.
        """
        kept = {name: value[:_LONGEST] if isinstance(value, str) else value for name, value in facts.items() if value}
        line = json.dumps({"at": time.time(), "by": by, "role": role, "did": did, "went": went[:_LONGEST], **kept})
        try:
            with self._mutex:
                self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
                try:
                    os.write(file, line.encode() + b"\n")
                    os.fsync(file)
                finally:
                    os.close(file)
        except OSError as error:
            raise StoreError(f"trail {self.path}: cannot be written ({error.strerror}); nothing was done") from error

    def read(self) -> list[dict[str, Any]]:
        """The newest deeds, newest first; a line that was cut short is left out."""
        try:
            lines = self.path.read_bytes().splitlines()[-MOST:]
        except OSError:
            return []
        found: list[dict[str, Any]] = []
        for each in reversed(lines):
            try:
                found.append(json.loads(each))
            except ValueError:
                continue
        return found

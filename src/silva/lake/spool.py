"""Where on this machine the journal of a lake in an object store is spooled, and what its writers leave behind."""

from __future__ import annotations

import hashlib
from pathlib import Path

import platformdirs

_MARKS = {"writer.lock", "writer.pid", "writer.json", "writer.clock", "spool.id"}


def is_mark(name: str) -> bool:
    """Whether the file is what a writer leaves behind that died before the lake was made."""
    return name in _MARKS or name.startswith("writers/")


def spool(url: str) -> Path:
    """The folder on this machine in which the journal of the object-store lake `url` is spooled."""
    name = hashlib.sha256(url.rstrip("/").encode()).hexdigest()[:16]
    return platformdirs.user_state_path("silva") / "spool" / name

"""Small things a child does to itself, and says."""

from __future__ import annotations

import json
import os
from typing import Any


def spare(adjustment: int) -> None:
    """How gladly the kernel kills this process when memory runs out."""
    try:
        write("/proc/self/oom_score_adj", str(adjustment))
    except OSError:
        return  # only root may spare itself


def write(path: str, text: str) -> None:
    """Write to a file of the kernel's. Raises OSError."""
    fd = os.open(path, os.O_WRONLY)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


def say(fd: int, text: str) -> None:
    """Write to whoever listens, if anyone does."""
    try:
        os.write(fd, text.encode())
    except OSError:
        return  # nobody listens any more


def message(data: bytes) -> dict[str, Any]:
    """What the owner sent: JSON in UTF-8, in which a name that is none may stand as the system has it. Raises
    ValueError."""
    found = json.loads(data.decode("utf-8", "surrogateescape"))
    if not isinstance(found, dict):
        raise ValueError("it is no object")
    return found


def encoded(message: dict[str, Any]) -> bytes:
    """The other way round: no longer than what it was read from. Raises ValueError."""
    return json.dumps(message, ensure_ascii=False).encode("utf-8", "surrogateescape")

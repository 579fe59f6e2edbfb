"""Small things a child does to itself, and says."""

from __future__ import annotations

import os


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

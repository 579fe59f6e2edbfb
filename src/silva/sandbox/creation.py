"""What the fork server is told to make a sandbox of namespaces: mounts, binds, and the bounds on its programs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from silva.sandbox import first, system
from silva.sandbox.files import Files
from silva.sandbox.limits import Limits
from silva.sandbox.protocol import Spec

INSIDE_USER = 1000
"""Whom programs are inside."""


def creation(spec: Spec, files: Files, etc: Path, user: int | None, deputy: int, *, keeps: bool) -> dict[str, Any]:
    """How process 1 is made.

    Args:
        spec: what the sandbox is to be.
        files: its own files.
        etc: the prepared files of its `/etc`.
        user: whom its programs are on this machine; None for the caller.
        deputy: the number of the process whose control group it is in; 0 for none.
        keeps: whether what runs is to be written down with checkpoints.
    """
    given = keeps and user is not None
    binds, arguments = system.arguments(etc, spec, INSIDE_USER, users=given)
    return {
        "users": given,
        "uid": INSIDE_USER,
        "deputy": deputy,
        "user": user,
        **staged(spec, files),
        "binds": binds,
        "read": system.lent(binds, spec),
        "program": system.bubblewrap(),
        "arguments": [*arguments, "/bin/sh", "-c", first.HOLDER],
    }


def staged(spec: Spec, files: Files) -> dict[str, Any]:
    """What is mounted for a sandbox besides what it is lent: its own files, and the system's where more is laid over
    it."""
    mounts = files.mounts()
    return {**mounts, "overlays": [*mounts["overlays"], *system.laid(spec)]}


def bounds(limits: Limits, *, grouped: bool) -> dict[str, int]:
    """The kernel's bounds on each program; `grouped`: a control group holds memory and processes."""
    known = {"open_files": limits.open_files, "file_size": limits.disk, "core": 0}
    return known if grouped else {**known, "data": limits.memory, "processes": limits.processes + 3}

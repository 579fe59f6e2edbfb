"""What a backend truly reaches on this machine. Found out by trying, never assumed."""

from __future__ import annotations

from enum import StrEnum

from silva.tree import Record


class Isolation(StrEnum):
    """What keeps a sandbox from the rest of the machine."""

    NAMESPACES = "namespaces"  # own processes, files, network, users; seccomp
    CONTAINER = "container"  # what podman or docker gives
    NONE = "none"  # a process and nothing else


class Fidelity(StrEnum):
    """What a checkpoint brings back."""

    EXACT = "exact"  # files and processes
    PROCESSES = "processes"  # the same, but connections that led outside are broken
    FILES = "files"  # files; processes begin anew
    NOTHING = "none"


class Held(StrEnum):
    """How a limit is held."""

    CGROUP = "control group"  # the kernel counts all processes together
    RLIMIT = "rlimit"  # the kernel counts each process or user
    WATCHED = "watched"  # looked at a few times a second; a burst may pass it before it is seen
    ENGINE = "engine"  # the container engine sees to it
    NOT = "not held"


class Capabilities(Record, frozen=True, kw_only=True):
    """What a sandbox of one backend has here.

    Attributes:
        backend: its name.
        isolation: what keeps it in.
        network: `none`, `allow-list` (a proxy lets named hosts through) or `host` (nothing holds it back).
        seccomp: whether calls of the kernel that help to leave are refused.
        user: whose rights its programs have on this machine: `caller`, `unprivileged` (nobody's), or `root` within a
            container of an engine that has root's.
        files: how its files are kept apart and kept: `overlay`, `copy` or `none`.
        fidelity: what a checkpoint brings back.
        limits: name of each limit, and how it is held.
        notes: one line for everything that is less than it could be, and what to do about it.
    """

    backend: str
    isolation: Isolation
    network: str
    seccomp: bool
    user: str
    files: str
    fidelity: Fidelity
    limits: dict[str, Held]
    notes: tuple[str, ...] = ()

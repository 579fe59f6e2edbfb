"""Control groups: the kernel counting all processes of one sandbox together. Version 2 where delegated, else version 1.

    Groups.find ─▶ where groups may be made, per resource ─▶ Groups.make(sandbox, limits) ─▶ Group
                                                               processes join it in the fork server, before they start

Nothing is assumed of the machine: a group counts as possible after one was made, a process put into it, and removed.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from silva.sandbox.limits import Limits

_OURS = 5
"""Processes of a sandbox that are not its programs': bubblewrap's two, the sleeping one, the deputy, one it forks."""
_PERIOD = 100_000
_V1 = ("memory", "pids", "cpu", "freezer")


_EVENTS = ("memory.events", "memory.oom_control")


class Group:
    """The group of one sandbox: one folder (version 2) or one a resource (version 1)."""

    def __init__(self, folders: dict[str, Path]) -> None:
        self._folders = folders
        self._events = ""

    @classmethod
    def of(cls, pid: int) -> Group:
        """The group a process is in that others made, to look at what it counts; empty where that cannot be seen."""
        folders: dict[str, Path] = {}
        for hierarchy, resource in (("", "memory"), ("", "pids"), ("memory", "memory"), ("pids", "pids")):
            with contextlib.suppress(OSError):
                mounted, own = _mounted(hierarchy), _own_path(hierarchy, pid)
                if mounted is not None and own is not None:
                    folder = mounted / own.lstrip("/")
                    if any(folder.glob(f"{resource}.*")):  # version 2 may be there beside version 1, and count nothing
                        folders[resource] = folder
        return cls(folders)

    @property
    def paths(self) -> list[str]:
        """Its folders."""
        return [str(path) for path in dict.fromkeys(self._folders.values())]

    @property
    def joins(self) -> list[str]:
        """The files a process writes 0 into to join."""
        return [f"{path}/cgroup.procs" for path in self.paths]

    def out_of_memory(self) -> int:
        """How many of its processes the kernel has killed for lack of memory."""
        folder = self._folders.get("memory")
        if folder is None:
            return 0
        if not self._events:
            self._events = next((name for name in _EVENTS if (folder / name).exists()), _EVENTS[0])
        for line in _said(f"{folder}/{self._events}").splitlines():
            key, _, value = line.partition(b" ")
            if key == b"oom_kill":
                return int(value)
        return 0

    def refused_processes(self) -> int:
        """How often a process was not started for lack of room."""
        folder = self._folders.get("pids")
        words = [] if folder is None else _said(f"{folder}/pids.events").split()
        return int(words[1]) if len(words) > 1 else 0

    def only(self, pid: int) -> bool:
        """Whether this process is all that is in it."""
        return members(self.paths) <= {pid}

    def memory(self) -> int | None:
        """Bytes in use; None where nobody counts."""
        folder = self._folders.get("memory")
        if folder is None:
            return None
        for name in ("memory.current", "memory.usage_in_bytes"):
            with contextlib.suppress(OSError, ValueError):
                return int((folder / name).read_text())
        return None

    def limit(self, limits: Limits) -> None:
        """Set its bounds. Raises OSError."""
        for resource, folder in self._folders.items():
            if resource == "memory":
                _set_memory(folder, limits.memory)
            elif resource == "pids":
                (folder / "pids.max").write_text(str(limits.processes + _OURS))
            elif resource == "cpu":
                quota = max(1000, int(limits.cpus * _PERIOD))
                if (folder / "cpu.max").exists():
                    (folder / "cpu.max").write_text(f"{quota} {_PERIOD}")
                else:
                    (folder / "cpu.cfs_period_us").write_text(str(_PERIOD))
                    (folder / "cpu.cfs_quota_us").write_text(str(quota))

    @contextlib.contextmanager
    def frozen(self) -> Iterator[bool]:
        """Hold all its processes still; says whether that could be done."""
        v1, v2 = self._folders.get("freezer"), self._folders.get("pids")
        if v1 is not None:
            path, still, moving, reached = v1 / "freezer.state", "FROZEN", "THAWED", "FROZEN"
            state = path
        elif v2 is not None and (v2 / "cgroup.freeze").exists():
            path, still, moving, reached = v2 / "cgroup.freeze", "1", "0", "frozen 1"
            state = v2 / "cgroup.events"
        else:
            yield False
            return
        try:
            path.write_text(still)
            until = time.monotonic() + 2
            while reached not in state.read_text():
                if time.monotonic() > until:
                    break
                time.sleep(0.0005)
            yield reached in state.read_text()
        finally:
            path.write_text(moving)

    def remove(self) -> None:
        """Remove it; the kernel may need a moment after its last process has gone."""
        remove_groups(self.paths)


class Groups:
    """Where this process may make groups. `resources` says for what: memory, pids, cpu, freezer."""

    def __init__(self, bases: dict[str, Path]) -> None:
        self._bases = bases
        self.resources = frozenset(bases)

    @classmethod
    def find(cls) -> Groups:
        """Find out by trying."""
        bases = _delegated()
        if not bases:
            bases = {name: base for name in _V1 if (base := _first_version(name)) is not None}
        return cls(bases)

    def claim(self, name: str) -> Groups:
        """Groups below one of the owner's own, called `silva-NAME`."""
        made: dict[str, Path] = {}
        for resource, base in self._bases.items():
            folder = base / f"silva-{name}"
            with contextlib.suppress(OSError):
                folder.mkdir(exist_ok=True)
                if (folder / "cgroup.subtree_control").exists():
                    (folder / "cgroup.subtree_control").write_text("+memory +pids +cpu")
                made[resource] = folder
        return Groups(made)

    @property
    def paths(self) -> tuple[str, ...]:
        """The folders groups are made in."""
        return tuple(dict.fromkeys(map(str, self._bases.values())))

    def make(self, name: str, limits: Limits | None = None) -> Group:
        """A group, with bounds if given. Raises OSError."""
        folders = {resource: base / name for resource, base in self._bases.items()}
        for folder in folders.values():
            folder.mkdir(exist_ok=True)
        group = Group(folders)
        if limits is not None:
            group.limit(limits)
        return group


def remove_groups(paths: list[str] | tuple[str, ...]) -> bool:
    """Remove groups and those below them; whether they are gone."""
    until = time.monotonic() + 2
    while True:
        left = False
        for path in paths:
            for folder, _, _ in os.walk(path, topdown=False):
                try:
                    Path(folder).rmdir()
                except FileNotFoundError:
                    continue
                except OSError:
                    left = True
        if not left or time.monotonic() > until:
            return not left
        time.sleep(0.002)


def members(paths: list[str] | tuple[str, ...]) -> set[int]:
    """The processes in groups and in those below them."""
    found: set[int] = set()
    for path in paths:
        for folder, _, _ in os.walk(path):
            with contextlib.suppress(OSError):
                found.update(map(int, (Path(folder) / "cgroup.procs").read_text().split()))
    return found


def _said(path: str) -> bytes:
    """What a file of the kernel's says; nothing where it is gone. Asked before and after every command: no more calls
    than it takes."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.read(fd, 4096)
    except OSError:
        return b""
    finally:
        os.close(fd)


def _set_memory(folder: Path, limit: int) -> None:
    if (folder / "memory.max").exists():
        (folder / "memory.max").write_text(str(limit))
        if (folder / "memory.swap.max").exists():
            (folder / "memory.swap.max").write_text("0")
        return
    alone, swapped = folder / "memory.limit_in_bytes", folder / "memory.memsw.limit_in_bytes"
    order = [alone, *([swapped] if swapped.exists() else [])]
    if limit > int(alone.read_text()):
        order.reverse()  # the first may never be above the second, and a slot may come from a smaller sandbox
    for path in order:
        path.write_text(str(limit))


def _own_path(resource: str, pid: int | str = "self") -> str | None:
    for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        _, names, path = line.split(":", 2)
        if resource in names.split(",") or (not resource and not names):
            return path
    return None


def _mounted(resource: str) -> Path | None:
    """Where a hierarchy is mounted whole; `resource` "" is version 2."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        if kind == ("cgroup" if resource else "cgroup2") and (not resource or resource in options.split(",")):
            return Path(before.split(" ")[4])
    return None


def _first_version(resource: str) -> Path | None:
    with contextlib.suppress(OSError):
        mounted, own = _mounted(resource), _own_path(resource)
        if mounted is None or own is None:
            return None
        base = mounted / own.lstrip("/")
        return base if _works(base, []) else None
    return None


def _delegated() -> dict[str, Path]:
    """Version 2: the nearest group at or above this process's own in which others may be made and bounded."""
    with contextlib.suppress(OSError):
        mounted, own = _mounted(""), _own_path("")
        if mounted is None or own is None:
            return {}
        here = mounted / own.lstrip("/")
        for base in (here, *here.parents):
            if not base.is_relative_to(mounted):
                break
            wanted = {"memory", "pids", "cpu"}
            if wanted <= set(_read(base / "cgroup.controllers")) and _works(base, sorted(wanted)):
                return dict.fromkeys(("memory", "pids", "cpu"), base)
    return {}


def _read(path: Path) -> list[str]:
    return path.read_text().split() if path.exists() else []


def _works(base: Path, controllers: list[str]) -> bool:
    """Whether a group can be made in `base`, bounded, and a process be put into it."""
    trial = base / f"silva-trial-{os.getpid()}"
    try:
        missing = set(controllers) - set(_read(base / "cgroup.subtree_control"))
        if missing:
            (base / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in sorted(missing)))
        trial.mkdir()
        joined = subprocess.run(["sh", "-c", 'echo 0 >"$0/cgroup.procs"', str(trial)], capture_output=True, check=False)
        return joined.returncode == 0
    except OSError:
        return False
    finally:
        remove_groups([str(trial)])

"""Confining one command by bubblewrap: its own processes, its own /tmp and home, the system read-only.

What is *not* confined: the network (a program must reach its model on loopback) and how much memory, disk and time it
takes beyond what the caller bounds. `level` says what was truly reached, and it is recorded, never assumed.
"""

from __future__ import annotations

import contextlib
import functools
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from enum import StrEnum
from pathlib import Path

from silva.errors import MissingError, UsageError
from silva.tree import Record

_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc", "/opt")
"""What programs need of the system; read-only. Homes, /root, /var, /run and /srv are not there."""
MARK = "SILVA_PROGRAM"
"""The variable by which what a command without isolation has started is known for its own."""
_END_SECONDS = 2.0
"""How long a command's processes are looked for and killed: some may be starting more of them meanwhile."""
INSIDE = Path("/workspace")
"""Where the folder of a command in namespaces lies for it: always the same, so that what programs tell their models
of it does not differ from one episode to the next."""


class Level(StrEnum):
    """How a command is kept from the rest of the machine."""

    NAMESPACES = "namespaces"  # bubblewrap: own processes, own /tmp and home, the system read-only
    PROCESS = "process"  # none: a process of its own and nothing else


class Confined(Record, frozen=True, kw_only=True):
    """A command made ready: what to execute, with which environment, and what keeps it in. `command` is the program
    itself; `mark` stands in its environment where nothing else tells its processes from others."""

    command: str
    arguments: tuple[str, ...]
    variables: dict[str, str]
    level: Level
    mark: str = ""


@functools.cache
def level() -> Level:
    """The best isolation there is here, found out by trying it."""
    if shutil.which("bwrap") is None:
        return Level.PROCESS
    try:
        tried = subprocess.run(
            [*_base(), "true"], env={"PATH": os.defpath}, capture_output=True, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return Level.PROCESS
    return Level.NAMESPACES if tried.returncode == 0 else Level.PROCESS


def seen(folder: Path, wanted: str = "auto") -> Path:
    """The path of `folder` as a command confined to it sees it.

    Raises:
        MissingError, UsageError: as of `confined`.
    """
    return INSIDE if _reached(wanted) is Level.NAMESPACES else folder


def confined(
    command: tuple[str, ...],
    folder: Path,
    variables: dict[str, str],
    *,
    wanted: str = "auto",
    mounts: tuple[Path, ...] = (),
) -> Confined:
    """Make a command ready to run in `folder`, the only place of this machine it may write. It may lie elsewhere for
    the command: paths in `command` and `variables` that lead into it are to start with `seen(folder, wanted)`.

    Args:
        command: the program and its arguments.
        folder: where it starts; must exist.
        variables: its whole environment besides PATH, HOME, LANG and TMPDIR.
        wanted: `auto` (the best there is), `namespaces` or `process`.
        mounts: what else it may read.

    Raises:
        MissingError: `namespaces` is wanted and cannot be had here.
        UsageError: there is no such program, or `wanted` is no level.
    """
    found = shutil.which(command[0])
    if found is None:
        raise UsageError(f"there is no program {command[0]!r}: give its path, or install it")
    program = str(Path(found).absolute())  # it starts in another folder
    reached = _reached(wanted)
    place = seen(folder, wanted)
    inner = {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(place / ".home"),
        "TMPDIR": "/tmp",
        "LANG": os.environ.get("LANG", "C.UTF-8"),
        **variables,
    }
    (folder / ".home").mkdir(exist_ok=True)
    if reached is Level.PROCESS:
        mark = secrets.token_hex(8)
        marked = {**inner, MARK: mark}
        arguments = (program, *command[1:])
        return Confined(command=program, arguments=arguments, variables=marked, level=reached, mark=mark)
    binds: list[str] = []
    for path in map(str, _readable(Path(program), mounts)):
        binds += ["--ro-bind-try", path, path]
    own = ("--bind", str(folder), str(place), "--chdir", str(place))
    arguments = (*_base(), *binds, *own, program, *command[1:])
    return Confined(command=program, arguments=arguments, variables=inner, level=reached)


def end(ready: Confined, root: int) -> None:
    """Kill a command that was started as process `root`, in a session of its own, and all that it started. (Without
    isolation, what threw its environment away, has a session of its own and lost its parent is not found.) Blocks."""
    from silva.sandbox.forkserver.victims import kill, processes, trees
    from silva.sandbox.process import labelled

    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(root, signal.SIGKILL)
    if not ready.mark:  # its processes end with the first of them
        return
    until = time.monotonic() + _END_SECONDS
    while time.monotonic() < until:
        table = processes("/proc")
        found = (trees(table, [root]) | labelled(ready.mark, MARK)) & table.keys()
        victims = [pid for pid in found if table[pid][3] != "Z"]
        if not victims:
            return
        for pid in victims:
            kill(pid)
        time.sleep(0.002)


def _reached(wanted: str) -> Level:
    if wanted == "auto":
        return level()
    if wanted == Level.PROCESS:
        return Level.PROCESS
    if wanted != Level.NAMESPACES:
        raise UsageError(f"sandbox {wanted!r} is not known; possible are auto, namespaces and process")
    if level() is not Level.NAMESPACES:
        raise MissingError("a sandbox of namespaces needs bubblewrap, which is not here or may not run: install it")
    return Level.NAMESPACES


def _base() -> list[str]:
    system: list[str] = []
    for place in _SYSTEM:
        path = Path(place)
        if path.is_symlink():
            system += ["--symlink", str(path.readlink()), place]
        elif path.exists():
            system += ["--ro-bind", place, place]
    alone = ["--unshare-user-try", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
    scratch = ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--tmpfs", "/run"]
    return ["bwrap", *alone, "--die-with-parent", "--new-session", *system, *scratch]


def _readable(program: Path, mounts: tuple[Path, ...]) -> list[Path]:
    """The folders a program is read from: its own installation (a virtual environment, and the interpreter behind it),
    this interpreter's, and what the caller adds; those under system folders are there already."""
    places = [place.resolve() for place in mounts]
    for start in (program, Path(sys.executable)):
        for path in (start.absolute(), start.resolve()):
            places.append(path.parent.parent if path.parent.name in ("bin", "shims", ".bin") else path.parent)
        configuration = start.absolute().parent.parent / "pyvenv.cfg"
        if configuration.is_file():
            places += _base_interpreter(configuration)
    kept: list[Path] = []
    for place in dict.fromkeys(places):
        covered = any(place.is_relative_to(known) for known in (*map(Path, _SYSTEM), *kept))
        if not covered and place != Path("/"):
            kept.append(place)
    return kept


def _base_interpreter(configuration: Path) -> list[Path]:
    for line in configuration.read_text(encoding="utf-8", errors="replace").splitlines():
        name, _, value = line.partition("=")
        if name.strip() == "home":
            return [Path(value.strip()).parent]
    return []

"""Who is to be killed: processes and their relations, as a /proc shows them."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

_SECONDS = 2.0
"""How long to wait for those that were killed."""


def end(message: dict[str, Any]) -> None:
    """Kill (or count) what runs in the sandbox this process has entered; see `Spawner.stop`."""
    if message["how"] == "count":
        os._exit(min(100, _count()))
    if message["how"] == "all":
        _everything(signal.SIGKILL)
        return
    killed: set[int] = set()
    rounds, until = 0, time.monotonic() + _SECONDS
    while time.monotonic() < until:
        victims = _victims(message["root"], message["others"], message["since"])
        if not victims:
            return
        if killed.issuperset(victims):
            time.sleep(0.001)  # they die as soon as they get a processor
        else:
            rounds += 1
        if rounds >= 20:
            # It makes processes faster than they can be named: one call of the kernel's ends them all.
            _everything(signal.SIGKILL)
        for pid in victims:
            kill(pid)
        killed.update(victims)


def _count() -> int:
    """How many processes are there besides process 1, what it sleeps in, and this one."""
    table = processes("/proc")
    others = [pid for pid, row in table.items() if pid not in (1, os.getpid()) and row[3] != "Z"]
    return len([pid for pid in others if not (table[pid][0] == 1 and _sleeps(pid))])


def _sleeps(pid: int) -> bool:
    try:
        fd = os.open(f"/proc/{pid}/cmdline", os.O_RDONLY)
    except OSError:
        return False
    try:
        return os.read(fd, 64) == b"sleep\x002000000000\x00"
    finally:
        os.close(fd)


def _everything(number: int) -> None:
    try:
        os.kill(-1, number)
    except (ProcessLookupError, PermissionError):
        return


def kill(pid: int) -> None:
    """Kill, unless it has ended."""
    try:
        os.kill(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


def _victims(root: int, others: list[int], start: int) -> list[int]:
    """The processes of a command: its tree, its session, and what has been started since and is no other command's."""
    table = processes("/proc")
    own = os.getpid()
    theirs = trees(table, others)
    mine = trees(table, [root])
    since = {
        pid
        for pid, (parent, _session, began, state) in table.items()
        if began >= start and parent == 1 and state != "Z"
    }
    mine |= trees(table, list(since - theirs))
    return [pid for pid in mine - theirs - {1, own} if table[pid][3] != "Z"]


def trees(table: dict[int, tuple[int, int, int, str]], roots: list[int]) -> set[int]:
    """Processes, who is in a session of theirs, and all that these started."""
    found = {pid for pid, row in table.items() if pid in roots or row[1] in roots}
    while more := {pid for pid, row in table.items() if row[0] in found} - found:
        found |= more
    return found - {1}


def processes(proc: str) -> dict[int, tuple[int, int, int, str]]:
    """Every process a /proc shows: pid to parent, session, start time in ticks, state."""
    table: dict[int, tuple[int, int, int, str]] = {}
    for name in os.listdir(proc):  # noqa: PTH208 - no more modules than are needed may be loaded here
        if not name.isdigit():
            continue
        try:
            fd = os.open(f"{proc}/{name}/stat", os.O_RDONLY)
        except OSError:
            continue
        try:
            fields = os.read(fd, 4096).rpartition(b") ")[2].split()
        except OSError:
            continue  # it ended between the two
        finally:
            os.close(fd)
        if len(fields) > 19:
            table[int(name)] = (int(fields[1]), int(fields[3]), int(fields[19]), fields[0].decode())
    return table


def grouped(groups: list[str]) -> list[int]:
    """The processes in control groups and in those below them."""
    found = []
    for group in groups:
        for folder, _, _ in os.walk(group):
            found += map(int, _read(f"{folder}/cgroup.procs").split())
    return found


def thaw(groups: list[str]) -> None:
    """Let the processes in control groups, and in those below them, run on: nobody dies while held still."""
    for group in groups:
        for folder, _, files in os.walk(group):
            for name, word in (("freezer.state", b"THAWED"), ("cgroup.freeze", b"0")):
                if name in files:
                    try:
                        fd = os.open(f"{folder}/{name}", os.O_WRONLY)
                    except OSError:
                        continue
                    try:
                        os.write(fd, word)
                    except OSError:
                        continue  # the uppermost one has no say
                    finally:
                        os.close(fd)


def labelled(folder: str) -> list[int]:
    """The processes whose environment says that they belong to a sandbox kept in a folder."""
    try:
        marks = [f"SILVA_SANDBOX={name}".encode() for name in os.listdir(folder)]  # noqa: PTH208 - as above
    except OSError:
        return []
    found = []
    for name in os.listdir("/proc"):  # noqa: PTH208
        if name.isdigit() and any(part in marks for part in _read(f"/proc/{name}/environ").split(b"\0")):
            found.append(int(name))
    return found


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - pathlib is not loaded here
            return file.read()
    except OSError:
        return b""

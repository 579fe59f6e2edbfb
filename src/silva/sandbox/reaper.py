"""What owners left behind: seeing it, and removing it.

    survey ─▶ every owner's folder: alive, dead, foreign; its sandboxes, processes, memory
    dead   ─▶ what reap would remove
    reap   ─▶ of dead owners: processes, then control groups, then containers and their checkpoints, then folders

An owner that is killed is cleaned up after by its fork server within moments. This is for when both were killed, or the
machine went down.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

from silva.errors import MissingError
from silva.sandbox import owner
from silva.sandbox.cgroup import Groups, members, remove_groups
from silva.sandbox.container_engine import remove_images, said
from silva.sandbox.forkserver.victims import thaw
from silva.sandbox.owner import Label, Owner, Standing
from silva.sandbox.process import labelled
from silva.sandbox.watch import usage
from silva.tree import Record

_YOUNG = 60.0
"""Seconds that a folder without an owner's label is left alone: it may be in the making."""


class Found(Record, frozen=True, kw_only=True):
    """One owner's folder.

    Attributes:
        name: the folder's.
        standing: whether the owner is there.
        owner: None where the label is gone.
        sandboxes: their labels.
        processes: how many of its processes run.
        disk: bytes below the folder.
    """

    name: str
    standing: Standing
    owner: Owner | None
    sandboxes: tuple[Label, ...] = ()
    processes: int = 0
    disk: int = 0


class Reaped(Record, frozen=True, kw_only=True):
    """What was removed, and what could not be (one line each)."""

    owners: int = 0
    sandboxes: int = 0
    processes: int = 0
    groups: int = 0
    containers: int = 0
    bytes: int = 0
    left: tuple[str, ...] = ()


def survey(state: Path | None = None) -> list[Found]:
    """Every owner below the state folder, oldest first."""
    found = []
    for folder in _folders(state):
        record = owner.read_owner(folder)
        labels = tuple(owner.read_labels(folder))
        found.append(
            Found(
                name=folder.name,
                standing=_standing(folder, record),
                owner=record,
                sandboxes=labels,
                processes=len(_processes(record, labels)),
                disk=usage([folder]),
            )
        )
    return sorted(found, key=lambda each: each.owner.at if each.owner else 0.0)


def dead(state: Path | None = None) -> Reaped:
    """What `reap` would remove; control groups that stand in no label are not counted."""
    gone = [each for each in survey(state) if each.standing is Standing.DEAD]
    return Reaped(
        owners=len(gone),
        sandboxes=sum(len(each.sandboxes) for each in gone),
        processes=sum(each.processes for each in gone),
        groups=sum(Path(path).is_dir() for each in gone if each.owner for path in each.owner.groups),
        containers=sum(bool(label.container) for each in gone for label in each.sandboxes),
        bytes=sum(each.disk for each in gone),
    )


def reap(state: Path | None = None) -> Reaped:
    """Remove what dead owners left. Owners that are alive, or cannot be judged from here, are not touched."""
    owners = sandboxes = killed = groups = containers = size = 0
    left: list[str] = []
    for folder in _folders(state):
        record = owner.read_owner(folder)
        if _standing(folder, record) is not Standing.DEAD:
            continue
        labels = owner.read_labels(folder)
        killed += _kill(record, labels, left)
        containers += _containers(labels, left)
        _images(folder, record, left)
        size += usage([folder])
        if record is not None and record.groups:
            existing = [path for path in record.groups if Path(path).is_dir()]
            groups += len(existing)
            if not remove_groups(existing):
                left.append(f"control groups of {folder.name} are still in use")
        if owner.remove(folder):
            owners += 1
            sandboxes += len(labels)
        else:
            left.append(f"{folder} cannot be removed")
    groups += _strays(state)
    return Reaped(
        owners=owners,
        sandboxes=sandboxes,
        processes=killed,
        groups=groups,
        containers=containers,
        bytes=size,
        left=tuple(left),
    )


def _folders(state: Path | None) -> list[Path]:
    place = state or owner.state_folder()
    return [path for path in place.iterdir() if path.is_dir()] if place.is_dir() else []


def _standing(folder: Path, record: Owner | None) -> Standing:
    if record is not None:
        return record.standing()
    with contextlib.suppress(OSError):
        if time.time() - folder.stat().st_mtime < _YOUNG:
            return Standing.ALIVE
    return Standing.DEAD


def _processes(record: Owner | None, labels: list[Label] | tuple[Label, ...]) -> set[int]:
    if record is None:
        return set()
    found = members(record.groups)
    if record.backend == "process":
        for label in labels:
            found |= labelled(label.id)
    if record.server is not None and record.server.alive():
        found |= {record.server.pid} | _below(record.server.pid)
    return found


def _below(root: int) -> set[int]:
    from silva.sandbox.forkserver.victims import processes

    table = processes("/proc")
    found = {root}
    while more := {pid for pid, row in table.items() if row[0] in found} - found:
        found |= more
    return found - {root}


def _kill(record: Owner | None, labels: list[Label], left: list[str]) -> int:
    seen: set[int] = set()
    for _ in range(200):
        thaw(list(record.groups) if record else [])
        found = _processes(record, labels)
        if not found:
            return len(seen)
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        seen |= found
        time.sleep(0.01)
    left.append(f"processes {sorted(found)} do not end")
    return len(seen)


def _containers(labels: list[Label], left: list[str]) -> int:
    removed = 0
    for label in labels:
        engine, _, name = label.container.partition(":")
        if not engine:
            continue
        try:
            said(engine, "rm", "-f", name)
            removed += 1
        except MissingError as error:
            if "no such container" not in str(error).lower():
                left.append(f"container {name} may still be there: {error}")
    return removed


def _images(folder: Path, record: Owner | None, left: list[str]) -> None:
    """Remove the checkpoints that a container backend made for itself alone."""
    if record is None or not record.engine:
        return
    try:
        remove_images(record.engine, folder.name)
    except MissingError as error:
        left.append(f"checkpoints of {folder.name} may still be there: {error}")


def _strays(state: Path | None) -> int:
    """Control groups of owners that are gone, folder and all."""
    known = {path.name for path in _folders(state)}
    found: list[str] = []
    for base in map(Path, Groups.find().paths):
        for path in base.glob("silva-*-*-*"):
            name = path.name.removeprefix("silva-")
            pid, start, *_ = [*name.split("-"), "0"]
            if name not in known and pid.isdigit() and start.isdigit() and not _somewhere(int(pid), int(start)):
                found.append(str(path))
    # One owner has several, of which one alone may hold all its processes still.
    return sum(remove_groups([path]) for path in found if _emptied(path, found))


def _somewhere(pid: int, start: int) -> bool:
    """Whether an owner of that id and start runs, here or in a pid namespace below this one."""
    if owner.Process(pid=pid, start=start).alive():
        return True
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ProcessLookupError):
            if owner.start_time(int(place.name)) == start:
                inside = next(line for line in (place / "status").read_text().splitlines() if line[:6] == "NSpid:")
                if int(inside.split()[-1]) == pid:
                    return True
    return False


def _emptied(group: str, all: list[str]) -> bool:
    """End what is left in one of the groups whose owners, and their folders, are gone: held still, it has outlived its
    own end. A process of another machine's, which has no id here, is left alone, and all with it."""
    for _ in range(200):
        left = members([group])
        if not left or 0 in left:
            return not left
        thaw(all)
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)
    return False

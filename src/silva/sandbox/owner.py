"""Whose a sandbox is: the label on everything it takes from the machine.

    <state>/PID-START-xxxx/          one opened backend of one process
        owner.json                   process, start time, boot, pid namespace; fork server; control groups
        SANDBOX/label.json           one sandbox: when, which backend, which limits
        SANDBOX/…                    its files

A process id alone proves nothing, for the kernel gives it away again: id, start time and boot together do. Where
another machine or another pid namespace shares the folder, its owners cannot be judged from here and are left alone.
"""

from __future__ import annotations

import contextlib
import functools
import os
import secrets
import shutil
import subprocess
import time
from enum import StrEnum
from pathlib import Path

import msgspec

from silva.errors import StoreError
from silva.tree import Record

OWNER, LABEL = "owner.json", "label.json"


class Standing(StrEnum):
    """Whether an owner still is there."""

    ALIVE = "alive"
    DEAD = "dead"
    FOREIGN = "foreign"  # of another machine or pid namespace: not to be judged from here


class Process(Record, frozen=True, kw_only=True):
    """A process that cannot be mistaken for a later one of the same id."""

    pid: int
    start: int

    @classmethod
    def of(cls, pid: int) -> Process:
        """The process with this id now. Raises ProcessLookupError."""
        return cls(pid=pid, start=start_time(pid))

    def alive(self) -> bool:
        """Whether it still runs."""
        try:
            return start_time(self.pid) == self.start
        except ProcessLookupError:
            return False


class Owner(Record, frozen=True, kw_only=True):
    """Who opened a backend.

    Attributes:
        process: the owner.
        server: its fork server; None before it is started.
        boot, machine, namespace: where the process ids mean something.
        groups: the control groups made for it.
        backend: the backend's name.
        engine: the container engine, where one holds its sandboxes.
        at: when, seconds since 1970.
    """

    process: Process
    server: Process | None = None
    boot: str = ""
    machine: str = ""
    namespace: str = ""
    groups: tuple[str, ...] = ()
    backend: str = ""
    engine: str = ""
    at: float = 0.0

    def standing(self) -> Standing:
        """Whether it is alive, as far as can be told from here."""
        here = _here()
        if self.machine != here[1] or (self.boot == here[0] and self.namespace != here[2]):
            return Standing.FOREIGN
        return Standing.ALIVE if self.boot == here[0] and self.process.alive() else Standing.DEAD


class Label(Record, frozen=True, kw_only=True):
    """What a sandbox's folder says of it."""

    id: str
    backend: str
    at: float
    memory: int = 0
    processes: int = 0
    disk: int = 0
    from_snapshot: str = ""
    container: str = ""


def state_folder() -> Path:
    """Where sandboxes are kept: `$SILVA_SANDBOXES`, else the user's state folder."""
    given = os.environ.get("SILVA_SANDBOXES")
    if given:
        return Path(given).absolute()
    import platformdirs

    return platformdirs.user_state_path("silva", appauthor=False) / "sandboxes"


def claim(state: Path, backend: str, groups: tuple[str, ...] = ()) -> tuple[Path, Owner]:
    """Make this process the owner of a new folder below `state`.

    Raises:
        StoreError: it cannot be written.
    """
    boot, machine, namespace = _here()
    process = Process.of(os.getpid())
    owner = Owner(
        process=process,
        boot=boot,
        machine=machine,
        namespace=namespace,
        groups=groups,
        backend=backend,
        at=time.time(),
    )
    state = state.absolute()
    folder = state / f"{process.pid}-{process.start}-{secrets.token_hex(2)}"
    try:
        state.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder.mkdir(mode=0o700)
        write(folder / OWNER, owner)
    except OSError as error:
        raise StoreError(f"sandboxes cannot be kept in {state}: {error.strerror}; set SILVA_SANDBOXES") from error
    return folder, owner


def served(owner: Owner, server: Process, groups: tuple[str, ...], engine: str = "") -> Owner:
    """The same owner, its fork server, control groups and container engine known."""
    return msgspec.structs.replace(owner, server=server, groups=groups, engine=engine)


def write(path: Path, record: Record, *, whole: bool = True) -> None:
    """Write a label, `whole`: so that a reader sees all of it or none."""
    new = path.with_suffix(".new") if whole else path
    new.write_bytes(msgspec.json.encode(record))
    if whole:
        new.replace(path)


def read_owner(folder: Path) -> Owner | None:
    """The owner of a folder; None where the label is not there or not whole (a crash while it was made)."""
    try:
        return msgspec.json.decode((folder / OWNER).read_bytes(), type=Owner)
    except (OSError, msgspec.DecodeError):
        return None


def read_labels(folder: Path) -> list[Label]:
    """The sandboxes of an owner's folder."""
    found = []
    for path in sorted(folder.glob(f"*/{LABEL}")):
        try:
            found.append(msgspec.json.decode(path.read_bytes(), type=Label))
        except (OSError, msgspec.DecodeError):
            continue  # made or removed at this moment
    return found


def start_time(pid: int) -> int:
    """When a process started, in ticks since boot. Raises ProcessLookupError; a zombie counts as ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b") ")[2].split()
    except OSError:
        raise ProcessLookupError(pid) from None
    if fields[0] in (b"Z", b"X"):
        raise ProcessLookupError(pid)
    return int(fields[19])


def remove(folder: Path) -> bool:
    """Remove a sandbox's folder, however deep and whatever its modes say; whether it is gone."""
    for work in (*folder.glob("work/*/work"), *folder.glob("*/work")):
        with contextlib.suppress(OSError):
            if not work.is_symlink():
                work.chmod(0o700)  # the kernel leaves it without any permission
    try:
        shutil.rmtree(folder)
    except (OSError, RecursionError):
        # Folders without permissions, or nested deeper than Python walks.
        # Folders alone: an overlay's whiteouts are one file under many names, also names in layers that are kept.
        script = 'find "$0" -type d ! -perm -700 -exec chmod u+rwx {} \\; 2>/dev/null; exec rm -rf -- "$0"'
        subprocess.run(["sh", "-c", script, str(folder)], stderr=subprocess.DEVNULL, check=False)
    return not folder.exists()


@functools.cache
def _here() -> tuple[str, str, str]:
    boot = _text("/proc/sys/kernel/random/boot_id")
    machine = _text("/etc/machine-id") or os.uname().nodename
    return boot, machine, os.readlink("/proc/self/ns/pid")  # noqa: PTH115 - no file stands behind it


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="ascii").strip()
    except OSError:
        return ""

"""The backend that isolates nothing: a folder, and programs with this user's rights. It must be asked for by name.

Limits, time-outs, checkpoints of files, labels and cleaning up are as elsewhere; what a program does to the rest of the
machine, nobody holds back. /workspace, /home/agent, /tmp and /var/tmp stand for folders of the sandbox in what is asked
of it; programs see where they really lie, in `$HOME`, `$TMPDIR` and their working folder.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
import time
from pathlib import Path, PurePosixPath
from typing import Any, Self

from silva.errors import StoreError, UsageError
from silva.sandbox import owner
from silva.sandbox.capabilities import Capabilities, Fidelity, Held, Isolation
from silva.sandbox.cgroup import Groups, members, remove_groups
from silva.sandbox.contents import Contents
from silva.sandbox.files import CopiedFiles
from silva.sandbox.forkserver.victims import processes, trees
from silva.sandbox.held import HeldSandbox
from silva.sandbox.layers import Snapshot
from silva.sandbox.protocol import WORKSPACE, Backend, Spec
from silva.sandbox.result import Killed
from silva.sandbox.seccomp import filter_program
from silva.sandbox.slots import Slot, Slots
from silva.sandbox.spawner import Child, SandboxGone, Spawner

LABEL = "SILVA_SANDBOX"
"""The variable by which a program's descendants are known for this sandbox's."""
_PLACES = {WORKSPACE: "workspace", "/home/agent": "rest/home", "/tmp": "rest/tmp", "/var/tmp": "rest/var", "/": "."}


class Processes(Backend):
    """Sandboxes without isolation. Make one by `Processes.open`."""

    name = "process"

    def __init__(self, folder: Path, groups: Groups, snapshots: Contents, spawner: Spawner) -> None:
        self.folder = folder
        self.groups = groups
        self.snapshots = snapshots
        self.spawner = spawner
        self.slots = Slots(spawner, groups)
        self.sandboxes: dict[str, ProcessSandbox] = {}
        self._closed = False

    @classmethod
    async def open(cls, *, state: Path | None = None, snapshots: Path | None = None) -> Self:
        """Get ready; arguments and errors as of `Namespaces.open`."""
        found = await asyncio.to_thread(Groups.find)
        folder, record = owner.claim(state or owner.state_folder(), cls.name)
        groups = found.claim(folder.name)
        store = Contents(snapshots or folder / "snapshots", durable=snapshots is not None)
        spawner = await Spawner.open(folder, filter_program(), list(groups.paths), labels=True)
        server = owner.Process.of(spawner.pid)
        owner.write(folder / owner.OWNER, owner.served(record, server, groups.paths))
        return cls(folder, groups, store, spawner)

    async def create(self, spec: Spec | None = None, *, at: str = "") -> ProcessSandbox:
        """See `Backend.create`."""
        snapshot = await asyncio.to_thread(self.snapshots.find, at) if at else None
        return await self.begin(spec or Spec(), snapshot)

    async def begin(self, spec: Spec, snapshot: Snapshot | None) -> ProcessSandbox:
        """A sandbox that begins empty or at a checkpoint. Raises as `create` and StoreError."""
        if self._closed:
            raise SandboxGone("the backend is closed; open another")
        spec.limits.checked()
        if spec.network or spec.mounts:
            raise UsageError("a sandbox without isolation reaches every host and file: leave network and mounts out")
        if spec.system is not None:
            raise UsageError("a sandbox without isolation has this machine's own /usr: leave system out")
        if spec.files is not None and not spec.files.is_dir():
            raise UsageError(f"files: there is no folder {spec.files}")
        sandbox = ProcessSandbox(self, secrets.token_hex(4), spec)
        self.sandboxes[sandbox.id] = sandbox
        try:
            await sandbox.prepare(snapshot)
        except BaseException:
            await asyncio.shield(sandbox.destroy())
            raise
        return sandbox

    def capabilities(self) -> Capabilities:
        """See `Backend.capabilities`."""
        grouped = self.groups.resources
        return Capabilities(
            backend=self.name,
            isolation=Isolation.NONE,
            network="host",
            seccomp=False,
            user="caller",
            files="copy",
            fidelity=Fidelity.FILES,
            limits={
                "memory": Held.CGROUP if "memory" in grouped else Held.RLIMIT,
                "processes": Held.CGROUP if "pids" in grouped else Held.NOT,
                "cpus": Held.CGROUP if "cpu" in grouped else Held.NOT,
                "disk": Held.RLIMIT,
                "wall": Held.WATCHED,
                "output": Held.WATCHED,
                "open_files": Held.RLIMIT,
            },
            notes=("nothing is isolated: programs have this user's rights; disk is bounded for each file alone",),
        )

    async def close(self) -> None:
        """See `Backend.close`."""
        if self._closed:
            return
        self._closed = True
        await asyncio.gather(*(sandbox.destroy() for sandbox in list(self.sandboxes.values())))
        await self.slots.close()
        await self.spawner.close()
        await asyncio.to_thread(remove_groups, self.groups.paths)
        await asyncio.to_thread(owner.remove, self.folder)


class ProcessSandbox(HeldSandbox):
    """One sandbox without isolation."""

    def __init__(self, backend: Processes, id: str, spec: Spec) -> None:
        super().__init__(id, spec, backend.spawner)
        self._backend = backend
        self._folder = backend.folder / id
        self._files = CopiedFiles(self._folder, backend.snapshots, spec.files, None)
        self._slot: Slot | None = None

    async def prepare(self, snapshot: Snapshot | None) -> None:
        """Make its folders and take its control group. Raises StoreError, SilvaError."""
        limits = self.limits
        label = owner.Label(
            id=self.id,
            backend=self._backend.name,
            at=time.time(),
            memory=limits.memory,
            processes=limits.processes,
            disk=limits.disk,
            from_snapshot="" if snapshot is None else snapshot.id,
        )
        try:
            self._folder.mkdir(mode=0o700)
            owner.write(self._folder / owner.LABEL, label)
            self._files.begin(snapshot)
        except OSError as error:
            raise StoreError(f"a sandbox cannot be kept in {self._folder.parent}: {error.strerror}") from error
        self._slot = await self._backend.slots.take(limits)

    def capabilities(self) -> Capabilities:
        """See `Sandbox.capabilities`."""
        return self._backend.capabilities()

    async def checkpoint(self, label: str = "") -> str:
        """See `Sandbox.checkpoint`."""
        self._check()
        return (await asyncio.to_thread(self._kept_still, label)).id

    async def restore(self, id: str) -> None:
        """See `Sandbox.restore`."""
        self._check()
        snapshot = await asyncio.to_thread(self._backend.snapshots.find, id)
        self.interrupt_all(Killed.SANDBOX, "killed: the sandbox was restored to a checkpoint")
        await asyncio.to_thread(self._kill_all)
        await asyncio.to_thread(self._files.turn, snapshot)

    async def fork(self, id: str, n: int = 1) -> list[ProcessSandbox]:
        """See `Sandbox.fork`."""
        snapshot = await asyncio.to_thread(self._backend.snapshots.find, id)
        return [await self._backend.begin(self.spec, snapshot) for _ in range(n)]

    async def destroy(self) -> None:
        """See `Sandbox.destroy`."""
        if self._gone:
            return
        self._gone = "the sandbox was destroyed"
        await asyncio.to_thread(self._kill_all)
        for session in self._sessions.values():
            session.close()
        await asyncio.gather(*(child.ended for child in list(self._running)))
        if self._slot is not None:
            await self._backend.slots.give_back(self._slot)
        await asyncio.to_thread(owner.remove, self._folder)
        self._backend.sandboxes.pop(self.id, None)

    def _check(self) -> None:
        if self._gone:
            raise SandboxGone(f"sandbox {self.id} has ended: {self._gone}")

    def _entry(self, child: str) -> dict[str, Any]:
        self._check()
        limits = self.limits
        bounds = {"open_files": limits.open_files, "file_size": limits.disk, "core": 0}
        if self._slot is None:
            bounds["data"] = limits.memory
        deputy = 0 if self._slot is None else self._slot.deputy.number
        return {"sandbox": 0, "user": None, "uid": 0, "deputy": deputy, "limits": bounds}

    def _variables(self) -> dict[str, str]:
        return {**super()._variables(), "PATH": os.environ.get("PATH", os.defpath), LABEL: self.id}

    def _place(self, path: str) -> str:
        given = PurePosixPath(path)
        for here, there in self.spec.writable.items():
            if given.is_relative_to(there):
                return str(here.absolute() / given.relative_to(there))
        for place in (*given.parents, given)[::-1]:
            if str(place) in _PLACES and (str(place) != "/" or path == "/"):
                return str(self._files.top / _PLACES[str(place)] / given.relative_to(place))
        raise UsageError(f"{path} is no place of this sandbox: it has {WORKSPACE}, /home/agent, /tmp and /var/tmp")

    def _kept_still(self, label: str) -> Snapshot:
        with contextlib.ExitStack() as held:
            if self._slot is not None:
                held.enter_context(self._slot.group.frozen())
            note = "sandboxes without isolation keep files alone" if self.spec.processes else ""
            return self._files.keep(label, live=True, note=note)

    async def _end_tree(self, child: Child) -> None:
        await asyncio.to_thread(self._kill_since, child)

    def _kill_since(self, child: Child) -> None:
        """Kill a command, what it started, and what of this sandbox began since and is no other command's."""
        others = {each.pid for each in self._running if each is not child}
        others |= {each.child.pid for each in self._sessions.values() if each.child is not child and each.alive}
        for _ in range(40):
            table = processes("/proc")
            found = {pid for pid in self._own() if pid in table and table[pid][2] >= child.at}
            victims = found - trees(table, list(others))
            if not child.ended.done():
                victims.add(child.pid)
            if not kill(victims):
                return

    def _kill_all(self) -> None:
        for _ in range(40):
            if not kill(self._own()):
                return

    def _own(self) -> set[int]:
        """Every process of this sandbox: those in its control group, and those that carry its label."""
        found = labelled(self.id)
        if self._slot is not None:
            found |= members(self._slot.group.paths) - {self._slot.deputy.pid}
        return found


def labelled(id: str, variable: str = LABEL) -> set[int]:
    """The processes whose environment says that they belong to a sandbox, or have that value of another variable."""
    wanted = f"\0{variable}={id}\0".encode()
    found = set()
    for name in os.listdir("/proc"):  # noqa: PTH208 - thousands of entries
        if name.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{name}/environ", "rb") as environ:  # noqa: PTH123
                if wanted in b"\0" + environ.read() + b"\0":
                    found.add(int(name))
    return found


def kill(pids: set[int]) -> bool:
    """Kill; whether there was anyone."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    if pids:
        time.sleep(0.002)
    return bool(pids)

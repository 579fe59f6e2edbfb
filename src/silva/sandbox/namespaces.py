"""The default backend: namespaces made by bubblewrap, files on overlays, no root needed.

    Namespaces.open ─▶ probe ─▶ fork server ─▶ create: overlay + system read-only ─▶ bubblewrap ─▶ process 1 waits
                                                  exec enters by setns; destroy kills process 1 and with it all

What a program finds inside: the machine's /usr and libraries and a few files of /etc, read-only; /workspace, its home,
/tmp and /var/tmp, its own; its own processes; a loopback and no other network; nothing else.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from pathlib import Path
from typing import Self

import msgspec

from silva.errors import MissingError, StoreError, UsageError
from silva.sandbox import owner, system
from silva.sandbox.blanks import Blanks
from silva.sandbox.capabilities import Capabilities, Fidelity, Held, Isolation
from silva.sandbox.cgroup import Groups, remove_groups
from silva.sandbox.contents import Contents
from silva.sandbox.criu_trial import trial
from silva.sandbox.files import CopiedFiles, Files, OverlayFiles
from silva.sandbox.frozen import Frozen
from silva.sandbox.layers import Layers, Snapshot
from silva.sandbox.namespace import NamespaceSandbox
from silva.sandbox.protocol import Backend, Spec
from silva.sandbox.room import Room
from silva.sandbox.seccomp import filter_program
from silva.sandbox.slots import Slots
from silva.sandbox.spawner import SandboxGone, Spawner
from silva.sandbox.watch import Watch

UNPRIVILEGED = 65533
"""Whom programs run as when root is the caller: nobody that owns anything. (65534 is taken on most machines.)"""


class Namespaces(Backend):
    """Sandboxes by bubblewrap. Make one by `Namespaces.open`."""

    name = "namespaces"

    def __init__(self, folder: Path, groups: Groups, snapshots: Layers | Contents, reached: Capabilities) -> None:
        self.folder = folder
        self.snapshots = snapshots
        self.groups = groups
        self.watch = Watch()
        self.room = Room()
        self.slots: Slots
        self.blanks: Blanks
        self.frozen: Frozen
        self.user = UNPRIVILEGED if os.geteuid() == 0 else None
        self.spawner: Spawner
        self.sandboxes: dict[str, NamespaceSandbox] = {}
        self.reached = reached
        self._closed = False
        self.trying = False
        """Whether this is the trial of CRIU itself."""

    @classmethod
    async def open(cls, *, state: Path | None = None, snapshots: Path | None = None) -> Self:
        """Find out what there is here and get ready.

        Args:
            state: where sandboxes are kept; `silva.sandbox.owner.state_folder()` when left out.
            snapshots: where checkpoints are kept for good; with the sandboxes, and gone with them, when left out.

        Raises:
            MissingError: namespaces cannot be had here; the message says what to install or ask for.
            StoreError: the folders cannot be written.
        """
        state = (state or owner.state_folder()).absolute()
        groups = await asyncio.to_thread(Groups.find)
        folder, record = owner.claim(state, cls.name)
        groups = groups.claim(folder.name)
        try:
            system.prepare(folder / "etc")
            reached = capabilities(groups, state)
            kind = Layers if reached.files == "overlay" else Contents
            store = kind(snapshots or folder / "snapshots", durable=snapshots is not None)
            backend = cls(folder, groups, store, reached)
            backend.spawner = await Spawner.open(folder, filter_program(), list(groups.paths))
        except BaseException as error:
            await asyncio.to_thread(remove_groups, groups.paths)
            await asyncio.to_thread(owner.remove, folder)
            if not isinstance(error, OSError):
                raise
            raise StoreError(f"sandboxes cannot be kept in {state}: {error.strerror}; set SILVA_SANDBOXES") from error
        backend.slots = Slots(backend.spawner, groups)
        backend.frozen = Frozen(backend.spawner, folder, backend.user)
        backend.blanks = Blanks(folder, backend.user)
        server = owner.Process.of(backend.spawner.pid)
        owner.write(folder / owner.OWNER, owner.served(record, server, groups.paths))
        return backend

    async def create(self, spec: Spec | None = None, *, at: str = "") -> NamespaceSandbox:
        """See `Backend.create`."""
        snapshot = await asyncio.to_thread(self.snapshots.find, at) if at else None
        return await self._create(spec or Spec(), snapshot)

    async def _create(self, spec: Spec, snapshot: Snapshot | None) -> NamespaceSandbox:
        if self._closed:
            raise SandboxGone("the backend is closed; open another")
        spec.limits.checked()
        system.checked(spec)
        if spec.system is not None and not isinstance(self.snapshots, Layers):
            raise UsageError("system: nothing can be laid over /usr here: there are no overlays")
        sandbox = NamespaceSandbox(self, secrets.token_hex(4), spec)
        self.sandboxes[sandbox.id] = sandbox
        try:
            await sandbox.prepare(snapshot)
            await sandbox.start(snapshot)
        except BaseException:
            await asyncio.shield(sandbox.destroy())
            raise
        return sandbox

    async def fork(self, id: str, n: int, spec: Spec) -> list[NamespaceSandbox]:
        """`n` sandboxes that begin at a checkpoint. Raises StoreError."""
        snapshot = await asyncio.to_thread(self.snapshots.find, id)
        made = await asyncio.gather(*(self._create(spec, snapshot) for _ in range(n)), return_exceptions=True)
        failed = [each for each in made if isinstance(each, BaseException)]
        if failed:
            for each in made:
                if isinstance(each, NamespaceSandbox):
                    await each.destroy()
            raise failed[0]
        return [each for each in made if isinstance(each, NamespaceSandbox)]

    def capabilities(self) -> Capabilities:
        """See `Backend.capabilities`. The first call tries CRIU, if there is any; that takes half a second."""
        without = self.without_processes
        if not without:
            return msgspec.structs.replace(self.reached, fidelity=Fidelity.EXACT)
        note = f"checkpoints keep files, not what runs: {without}"
        return msgspec.structs.replace(self.reached, notes=(*self.reached.notes, note))

    @property
    def without_processes(self) -> str:
        """Why checkpoints cannot take along what runs; "" where they can."""
        if not isinstance(self.snapshots, Layers):
            return "there are no overlays, on which the files would be kept with them"
        return "" if self.trying else trial()

    def files(self, folder: Path, base: Path | None, *, apart: bool = False) -> Files:
        """The files of a sandbox kept in `folder`, above those of `base`; `apart`: see `Spec`."""
        if isinstance(self.snapshots, Contents):
            return CopiedFiles(folder, self.snapshots, base, self.user)
        return OverlayFiles(folder, self.snapshots, base, self.user, apart)

    def forget(self, id: str) -> None:
        """A sandbox is no more."""
        self.sandboxes.pop(id, None)

    async def close(self) -> None:
        """See `Backend.close`."""
        if self._closed:
            return
        self._closed = True
        await asyncio.gather(*(sandbox.destroy() for sandbox in list(self.sandboxes.values())))
        self.watch.close()
        self.room.close()
        self.snapshots.sharing.close()
        await self.slots.close()
        await self.blanks.close()
        await self.spawner.close()
        await asyncio.to_thread(remove_groups, self.groups.paths)
        await asyncio.to_thread(owner.remove, self.folder)


def capabilities(groups: Groups, state: Path) -> Capabilities:
    """What sandboxes of namespaces that are kept in a state folder have here, found out by `system.probe`.

    Raises:
        MissingError: there can be none.
    """
    reached = system.probe(state)
    if reached.problem:
        raise MissingError(reached.problem)
    held = {
        "memory": Held.CGROUP if "memory" in groups.resources else Held.WATCHED,
        "processes": Held.CGROUP if "pids" in groups.resources else Held.RLIMIT,
        "cpus": Held.CGROUP if "cpu" in groups.resources else Held.NOT,
        "disk": Held.WATCHED,
        "wall": Held.WATCHED,
        "output": Held.WATCHED,
        "open_files": Held.RLIMIT,
    }
    notes = list(reached.notes)
    if Held.NOT in held.values() or Held.WATCHED is held["memory"]:
        notes.append(
            "no control groups may be made here: memory is looked at four times a second, cpus are not held; run below"
            " a delegated group (systemd-run --user --scope -p Delegate=yes) or as root"
        )
    return Capabilities(
        backend=Namespaces.name,
        isolation=Isolation.NAMESPACES,
        network="allow-list",
        seccomp=True,
        user="unprivileged" if os.geteuid() == 0 else "caller",
        files="overlay" if reached.overlay else "copy",
        fidelity=Fidelity.FILES,
        limits=held,
        notes=tuple(notes),
    )

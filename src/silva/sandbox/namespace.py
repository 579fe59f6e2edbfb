"""One sandbox of namespaces: its files, its control group, its process 1, and what is done with them.

    prepare ─▶ start ─▶ exec, session, … ─▶ halt ─▶ (other files) ─▶ start … ─▶ destroy

Checkpoints of files that are in use are copies, made while everything inside is held still. Else process 1 is ended,
the top layer moved below, and another process 1 started on an empty one: no file is copied, however large.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from silva.errors import MissingError, StoreError
from silva.sandbox import owner, system
from silva.sandbox.capabilities import Capabilities
from silva.sandbox.cgroup import Group
from silva.sandbox.files import Files
from silva.sandbox.held import HeldSandbox
from silva.sandbox.layers import Snapshot
from silva.sandbox.protocol import Spec
from silva.sandbox.proxy import Proxy
from silva.sandbox.result import Killed
from silva.sandbox.slots import Slot
from silva.sandbox.spawner import Child, SandboxGone

if TYPE_CHECKING:
    from silva.sandbox.namespaces import Namespaces

INSIDE_USER = 1000
PROXY_PORT = 3128
BOMB = 50
"""Refused processes from which on a command is taken for one that forks without end."""
_READY = b"ready\n"
_START_SECONDS = 30
HOLDER = "echo ready; exec </dev/null >/dev/null 2>&1 3>&-; while :; do sleep 2000000000 & wait $!; done"
"""Process 1: it waits, and buries those whose parents have gone. The kernel shields it from what runs inside."""


class NamespaceSandbox(HeldSandbox):
    """One sandbox of namespaces. Made by `Namespaces.create`, `fork`."""

    def __init__(self, backend: Namespaces, id: str, spec: Spec) -> None:
        super().__init__(id, spec, backend.spawner)
        self._backend = backend
        self._files: Files
        self._rests = False
        self._folder = backend.folder / id
        self._slot: Slot | None = None
        self._first: Child | None = None
        self._pid = 0
        self._namespace = 0
        self._proxy: Proxy | None = None
        self._changing = asyncio.Lock()
        self._destroyed = False

    @property
    def _group(self) -> Group | None:
        return None if self._slot is None else self._slot.group

    async def prepare(self, snapshot: Snapshot | None) -> None:
        """Make its folders and take its control group.

        Raises:
            StoreError: its files cannot be kept.
            SilvaError: there can be no control group.
        """
        limits = self.limits
        try:
            self._folder.mkdir(mode=0o755)
            label = owner.Label(
                id=self.id,
                backend=self._backend.name,
                at=time.time(),
                memory=limits.memory,
                processes=limits.processes,
                disk=limits.disk,
                from_snapshot="" if snapshot is None else snapshot.id,
            )
            owner.write(self._folder / owner.LABEL, label)
            self._files = self._backend.files(self._folder, None if snapshot is not None else self.spec.files)
            self._rests = True
            self._files.begin(snapshot)
        except OSError as error:
            raise StoreError(f"a sandbox cannot be kept in {self._folder.parent}: {error.strerror}") from error
        self._slot = await self._backend.slots.take(limits)

    @property
    def alive(self) -> bool:
        """Whether it can be used."""
        return self._first is not None and not self._first.ended.done() and not self._destroyed

    async def start(self) -> None:
        """Start process 1 on the files as they are.

        Raises:
            MissingError: the kernel or bubblewrap refuses.
        """
        reading, writing = os.pipe()
        try:
            child = await self._spawner.create(self._creation(), writing)
        except BaseException:
            os.close(reading)
            raise
        finally:
            os.close(writing)
        said = await _said(reading, child)
        if not said.endswith(_READY):
            raise MissingError(f"a sandbox could not be started: {_first_line(said)}; see: silva sandbox capabilities")
        about = json.loads(said[: said.index(b"}") + 1])
        self._first, self._pid = child, about["child-pid"]
        self._namespace = about.get("pid-namespace", 0)
        child.ended.add_done_callback(lambda _: self._ended(child))
        self._backend.watch.add(self, self._group is None, self._files.written(), self._namespace)
        if self.spec.network:
            server = await self._spawner.listen({**self._inside(), "port": PROXY_PORT})
            self._proxy = await Proxy.open(server, self.spec.network)

    def capabilities(self) -> Capabilities:
        """See `Sandbox.capabilities`."""
        return self._backend.capabilities()

    async def checkpoint(self, label: str = "") -> str:
        """See `Sandbox.checkpoint`. While programs run they are held still and the changes copied; else no file is."""
        async with self._changing:
            self._check()
            live = self.busy or await self._others()
            if live or not self._files.moves:
                return (await asyncio.to_thread(self._kept_still, label)).id
            await self._halt()
            try:
                return (await asyncio.to_thread(self._files.keep, label, live=False)).id
            finally:
                await self.start()

    async def restore(self, id: str) -> None:
        """See `Sandbox.restore`."""
        async with self._changing:
            self._check()
            snapshot = await asyncio.to_thread(self._backend.snapshots.find, id)
            self.interrupt_all(Killed.SANDBOX, "killed: the sandbox was restored to a checkpoint")
            await self._halt()
            try:
                await asyncio.to_thread(self._files.turn, snapshot)
            finally:
                await self.start()

    async def fork(self, id: str, n: int = 1) -> list[NamespaceSandbox]:
        """See `Sandbox.fork`."""
        return await self._backend.fork(id, n, self.spec)

    async def destroy(self) -> None:
        """See `Sandbox.destroy`."""
        if self._destroyed:
            return
        self._destroyed = True
        self._gone = "the sandbox was destroyed"
        await self._halt()
        if self._slot is not None:
            await self._backend.slots.give_back(self._slot)
        if self._rests:
            self._files.end()
        await asyncio.to_thread(owner.remove, self._folder)
        self._backend.sandboxes.pop(self.id, None)

    async def end_programs(self, why: Killed, reason: str) -> None:
        """Kill everything in it but itself."""
        self.interrupt_all(why, reason)
        await self._spawner.stop({**self._inside(), "how": "all"})

    def _check(self) -> None:
        if not self.alive:
            raise SandboxGone(f"sandbox {self.id} has ended{f': {self._gone}' if self._gone else ''}")

    def _inside(self) -> dict[str, Any]:
        self._check()
        assert self._first is not None
        return {
            "sandbox": self._first.number,
            "first": self._pid,
            "user": self._backend.user,
            "uid": INSIDE_USER,
            "deputy": 0,
        }

    def _entry(self, child: str) -> dict[str, Any]:
        limits = self.limits
        bounds = {"open_files": limits.open_files, "file_size": limits.disk, "core": 0}
        if self._group is None:
            bounds |= {"data": limits.memory, "processes": limits.processes + 3}
        return {**self._inside(), "limits": bounds, "deputy": self._number}

    @property
    def _number(self) -> int:
        return 0 if self._slot is None else self._slot.deputy.number

    def _place(self, path: str) -> str:
        return path

    def _variables(self) -> dict[str, str]:
        known = super()._variables()
        if self._proxy is not None:
            url = f"http://127.0.0.1:{PROXY_PORT}"
            for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
                known[name] = url
            known["no_proxy"] = known["NO_PROXY"] = "localhost,127.0.0.1"
        return known

    def _counters(self) -> tuple[int, int]:
        return (0, 0) if self._group is None else (self._group.out_of_memory(), self._group.refused_processes())

    async def _met_a_limit(self, child: Child, before: tuple[int, int]) -> tuple[Killed | None, str] | None:
        killed, refused = (now - then for now, then in zip(self._counters(), before, strict=True))
        if refused > BOMB:
            await self._end_tree(child)
            return (
                Killed.PROCESSES,
                f"killed: it kept starting more than the sandbox's {self.limits.processes} processes",
            )
        if killed and child.ended.result().code == 0:
            return None, f"some of it was killed: more than the sandbox's {self.limits.memory:,} bytes of memory"
        if killed:
            return Killed.MEMORY, f"killed: the sandbox used more than its {self.limits.memory:,} bytes of memory"
        return None

    def refused_processes(self) -> int | None:
        """How often the kernel has refused it a process; None where nobody counts."""
        return None if self._group is None else self._group.refused_processes()

    async def _end_tree(self, child: Child) -> None:
        if not self.alive:
            return
        others = [_inner(each.pid) for each in self._running if each is not child]
        others += [_inner(each.child.pid) for each in self._sessions.values() if each.child is not child and each.alive]
        message = {
            "how": "tree",
            "root": _inner(child.pid),
            "others": [pid for pid in others if pid],
            "since": child.at,
        }
        with contextlib.suppress(SandboxGone):
            await self._spawner.stop({**self._inside(), **message})
            await self._spawner.signal(child, 9)

    async def _others(self) -> bool:
        return await self._spawner.stop({**self._inside(), "how": "count"}) > 0

    def _kept_still(self, label: str) -> Snapshot:
        with contextlib.ExitStack() as held:
            if self._group is not None:
                held.enter_context(self._group.frozen())
            return self._files.keep(label, live=True)

    async def _halt(self) -> None:
        """End process 1, and with it everything inside."""
        if self._proxy is not None:
            await self._proxy.close()
            self._proxy = None
        self._backend.watch.drop(self)
        for session in self._sessions.values():
            session.close()
        first, self._first = self._first, None
        if first is not None:
            with contextlib.suppress(SandboxGone):
                await self._spawner.halt(first, self._pid)
            await asyncio.gather(*(child.ended for child in list(self._running)))

    def _ended(self, child: Child) -> None:
        if self._first is child and not self._gone:
            self._gone = "its first process was killed"
            self._backend.watch.drop(self)

    def _creation(self) -> dict[str, Any]:
        binds, arguments = system.arguments(self._backend.folder / "etc", self.spec, INSIDE_USER)
        return {
            "deputy": self._number,
            "user": self._backend.user,
            **self._files.mounts(),
            "binds": binds,
            "program": system.bubblewrap(),
            "arguments": [*arguments, "/bin/sh", "-c", HOLDER],
        }


async def _said(fd: int, child: Child) -> bytes:
    """What the first process says until it is ready or gone."""
    os.set_blocking(fd, False)
    loop = asyncio.get_running_loop()
    said = bytearray()
    done = loop.create_future()

    def read() -> None:
        try:
            data = os.read(fd, 4096)
        except BlockingIOError:
            return
        said.extend(data)
        if (not data or said.endswith(_READY)) and not done.done():
            done.set_result(None)

    loop.add_reader(fd, read)
    try:
        await asyncio.wait_for(done, _START_SECONDS)
    except TimeoutError:
        said.extend(f"it was not ready after {_START_SECONDS} s\n".encode())
    finally:
        loop.remove_reader(fd)
        os.close(fd)
    return bytes(said)


def _first_line(said: bytes) -> str:
    lines = [line for line in said.decode(errors="replace").splitlines() if line and line[0] not in '{}" ']
    return lines[0].removeprefix("silva: ") if lines else "bubblewrap ended without a word"


def _inner(pid: int) -> int:
    """A process's id as seen inside its sandbox; 0 when it has ended."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("NSpid:"):
                return int(line.split()[-1])
    return 0

"""One sandbox of namespaces: its files, its control group, its process 1, and what is done with them.

    prepare ─▶ start ─▶ exec, session, … ─▶ halt ─▶ (other files) ─▶ start … ─▶ destroy

Checkpoints of files that are in use are copies, made while everything inside is held still. Else process 1 is ended,
the top layer moved below, and another process 1 started on an empty one: no file is copied, however large. A sandbox
of `Spec.processes` goes on running through a checkpoint, and what ran runs on after a restore (`silva.sandbox.frozen`).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import time
from pathlib import Path
from typing import Any

from silva.errors import MissingError, StoreError
from silva.sandbox import first, owner
from silva.sandbox.capabilities import Capabilities
from silva.sandbox.cgroup import Group, members
from silva.sandbox.connections import broken
from silva.sandbox.creation import INSIDE_USER, bounds, creation, staged
from silva.sandbox.files import Files, give
from silva.sandbox.frozen import Refused
from silva.sandbox.ground import Ground
from silva.sandbox.held import HeldSandbox
from silva.sandbox.kept import Kept
from silva.sandbox.layers import Layer, Snapshot
from silva.sandbox.protocol import Spec
from silva.sandbox.result import Killed, Result
from silva.sandbox.session import Session
from silva.sandbox.slots import Slot
from silva.sandbox.spawner import Child, SandboxGone
from silva.sandbox.watch import within
from silva.sandbox.ways import Ways


class NamespaceSandbox(HeldSandbox):
    """One sandbox of namespaces. Made by `Namespaces.create`, `fork`."""

    def __init__(self, backend: Ground, id: str, spec: Spec) -> None:
        super().__init__(id, spec, backend.spawner)
        self._backend = backend
        self._files: Files
        self._rests = False
        self._folder = backend.folder / id
        self._slot: Slot | None = None
        self._first: Child | None = None
        self._pid = 0
        self._namespace = 0
        self._ways = Ways(backend.room)
        self._changing = asyncio.Lock()
        self.lost = ""
        """Why programs did not come back from the checkpoint it was last made of; "" where they did, or had not to."""
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
            label = owner.Label(
                id=self.id,
                backend=self._backend.name,
                at=time.time(),
                memory=limits.memory,
                processes=limits.processes,
                disk=limits.disk,
                from_snapshot="" if snapshot is None else snapshot.id,
            )
            if snapshot is not None or not self._backend.blanks.take(self._folder, label):
                self._folder.mkdir(mode=0o755)
                owner.write(self._folder / owner.LABEL, label)
            base = None if snapshot is not None else self.spec.files
            self._files = self._backend.files(self._folder, base, apart=self.spec.apart)
            self._rests = True
            if snapshot is None and self.spec.files is None:
                self._files.begin(None)
            else:
                await asyncio.to_thread(self._files.begin, snapshot)
            for folder in self.spec.writable:
                await asyncio.to_thread(give, folder, self._backend.user)
        except OSError as error:
            raise StoreError(f"a sandbox cannot be kept in {self._folder.parent}: {error.strerror}") from error
        self._slot = await self._backend.slots.take(limits)
        if self.spec.processes:
            # The first time it tries CRIU, which takes a moment.
            self._keeps_sessions = not await asyncio.to_thread(lambda: self._backend.without_processes)

    @property
    def alive(self) -> bool:
        """Whether it can be used."""
        return self._first is not None and not self._first.ended.done() and not self._destroyed

    async def start(self, snapshot: Snapshot | None = None) -> None:
        """Start process 1 on the files as they are; where processes were written down with them, they run on.

        Raises:
            MissingError: the kernel or bubblewrap refuses.
        """
        self.lost = ""
        if self._keeps_sessions and snapshot is not None:
            if snapshot.processes is None:
                self.lost = f"the checkpoint holds files alone: {snapshot.note or 'its sandbox was not to keep more'}"
            else:
                try:
                    await self._bring_back(snapshot.processes)
                    return
                except (Refused, StoreError) as error:
                    self.lost = f"programs could not be brought back: {error}"
                    if self._slot is not None:
                        await asyncio.to_thread(self._slot.clear)
                    await asyncio.to_thread(self._files.turn, snapshot)  # no overlay is mounted twice on one folder
        elif self.spec.processes and snapshot is not None:
            self.lost = f"programs are not brought back here: {self._backend.without_processes}"
        reading, writing = os.pipe()
        try:
            etc = self._backend.folder / "etc"
            made = creation(self.spec, self._files, etc, self._backend.user, self._number, keeps=self._keeps_sessions)
            child = await self._spawner.create(made, writing)
        except BaseException:
            os.close(reading)
            raise
        finally:
            os.close(writing)
        said = await first.said(reading, child)
        if not said.endswith(first.READY):
            raise MissingError(
                f"a sandbox could not be started: {first.complaint(said)}; see: silva sandbox capabilities"
            )
        about = json.loads(said[: said.index(b"}") + 1])
        self._first, self._pid = child, about["child-pid"]
        self._namespace = about.get("pid-namespace", 0)
        await self._begun(child)

    async def _begun(self, child: Child) -> None:
        child.ended.add_done_callback(lambda _: self._ended(child))
        watched = [*self._files.written(), *self.spec.writable]
        self._backend.watch.add(self, self._group is None, watched, self._namespace)
        await self._ways.open(self.spec, self.listen)

    async def _bring_back(self, processes: Layer) -> None:
        """Have programs run on that were written down. Raises Refused, StoreError."""
        message = {"deputy": self._number, "user": self._backend.user, "uid": INSIDE_USER}
        message |= staged(self.spec, self._files)
        store = self._backend.snapshots
        images = store.folder / "layers" / processes.name
        with store.sharing.adding():  # what it reads must not go meanwhile
            store.sharing.rest([processes.name])
        try:
            back = await self._backend.frozen.bring_back(images, self._folder, self.spec, message)
        finally:
            store.sharing.leave([processes.name])
        self._first, self._pid = back.first, back.first.pid
        self._namespace = Path(f"/proc/{self._pid}/ns/pid").stat().st_ino  # noqa: ASYNC240 - of the kernel
        for live in back.sessions:
            session = Session(live.past.id, live.terminal, live.program, self._spawner, self._end_tree, live.past)
            self._sessions[session.id] = session
        self._opened = max([self._opened, *(int(id[1:]) for id in self._sessions)])
        await self._begun(back.first)

    async def listen(self, port: int) -> socket.socket:
        """A socket that listens on the sandbox's loopback and is answered from here: the one way from a program inside
        to its owner. Whoever is inside may connect to it.

        Raises:
            SandboxGone: the sandbox has ended.
            SilvaError: the port is taken there.
        """
        return await self._spawner.listen({**self._inside(), "port": port})

    @property
    def outside_user(self) -> int | None:
        """Whom its programs are on this machine; None for the caller."""
        return self._backend.user

    async def listen_at(self, name: str) -> socket.socket:
        """As `listen`, at a name (an abstract address) of the sandbox's own network."""
        return await self._spawner.listen({**self._inside(), "port": name})

    async def become(self, spec: Spec) -> None:
        """End everything in it, and begin anew with the same files under another spec. Raises MissingError."""
        async with self._changing:
            self._check()
            self.interrupt_all(Killed.SANDBOX, "killed: its files are judged")
            await self._halt()
            self.spec = spec
            self._keeps_sessions = False
            for folder in spec.writable:
                await asyncio.to_thread(give, folder, self._backend.user)
            await asyncio.to_thread(self._files.again)
            await self.start()

    async def veil(self, shown: list[list[str]], covered: list[str], ready: int) -> Child:
        """Make a second room in it: the same files and network, other processes. `shown`: what is mounted where
        instead; `covered`: what is hidden; `ready` is told when it stands. Raises SandboxGone."""
        return await self._spawner.veil({**self._inside(), "shown": shown, "covered": covered}, ready)

    async def judged(
        self, words: list[str], seconds: float, folder: str, variables: dict[str, str], judge: dict[str, Any]
    ) -> Result:
        """As `exec`, for a program that is followed (`forkserver.tracing`). Raises SandboxGone."""
        return await self._run(words, b"", seconds, folder, variables, judge=judge)

    async def start_in(
        self, room: dict[str, Any], words: list[str], folder: str, variables: dict[str, str], fds: list[int]
    ) -> Child:
        """Start a program in its second room. Raises SandboxGone, UsageError."""
        message = {**self._message(words, folder, {}), **room, "variables": variables}
        return await self._spawner.enter(message, fds)

    async def stop_in(self, room: dict[str, Any], child: Child) -> None:
        """End a program of its second room with all that it started. Raises SandboxGone."""
        message = {"how": "tree", "root": first.inner(child.pid), "others": [], "since": child.at}
        await self._spawner.stop({**self._inside(), **room, **message})
        await self._spawner.signal(child, 9)

    def capabilities(self) -> Capabilities:
        """See `Sandbox.capabilities`."""
        if self.spec.processes:
            return self._backend.capabilities()
        return self._backend.reached

    async def checkpoint(self, label: str = "") -> str:
        """See `Sandbox.checkpoint`. While programs run they are held still and the changes copied; else no file is."""
        async with self._changing:
            self._check()
            note = ""
            if self.spec.processes:
                try:
                    return (await self._written_down(label)).id
                except Refused as error:
                    note = str(error)
            live = self.busy or await self._others()
            if live or not self._files.moves:
                return (await asyncio.to_thread(self._kept_still, label, note)).id
            await self._halt()
            try:
                return (await asyncio.to_thread(self._files.keep, label, live=False, note=note)).id
            except StoreError:
                await asyncio.to_thread(self._files.again)
                raise
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
            except BaseException:
                await self.start()
                raise
            await self.start(snapshot)

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
        self._backend.forget(self.id)

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
        held = bounds(self.limits, grouped=self._group is not None)
        return {**self._inside(), "limits": held, "deputy": self._number}

    @property
    def _number(self) -> int:
        return 0 if self._slot is None else self._slot.deputy.number

    def _place(self, path: str) -> str:
        return path

    def _variables(self) -> dict[str, str]:
        return {**super()._variables(), **self._ways.variables}

    def _counters(self) -> tuple[int, int]:
        return (0, 0) if self._group is None else (self._group.out_of_memory(), self._group.refused_processes())

    def refused_processes(self) -> int | None:
        """How often the kernel has refused it a process; None where nobody counts."""
        return None if self._group is None else self._group.refused_processes()

    def processes(self) -> set[int]:
        """The processes in it, by their ids here, its own process 1 among them."""
        if self._slot is not None:
            return members(self._slot.group.paths) - {self._slot.deputy.pid}
        return within(self._namespace)

    async def _end_tree(self, child: Child) -> None:
        if not self.alive:
            return
        others = [first.inner(each.pid) for each in self._running if each is not child]
        others += [
            first.inner(each.child.pid) for each in self._sessions.values() if each.child is not child and each.alive
        ]
        others = [pid for pid in others if pid]
        message = {"how": "tree", "root": first.inner(child.pid), "others": others, "since": child.at}
        with contextlib.suppress(SandboxGone):
            await self._spawner.stop({**self._inside(), **message})
            await self._spawner.signal(child, 9)

    async def _others(self) -> bool:
        return await self._spawner.stop({**self._inside(), "how": "count"}) > 0

    async def _written_down(self, label: str) -> Snapshot:
        """Keep a checkpoint with all that runs. Raises Refused, StoreError."""
        if not self._keeps_sessions:
            raise Refused(self._backend.without_processes)
        if self._running:
            raise Refused("a command was running whose output goes outside: start it in a session instead")
        loop = asyncio.get_running_loop()
        held = {id: past for id, each in self._sessions.items() if (past := each.hold()) is not None}

        def take(copy: Path, images: Path) -> None:
            (top,) = self._files.written()
            taking = self._backend.frozen.take(self._pid, top, copy, images, tuple(held.values()))
            asyncio.run_coroutine_threadsafe(taking, loop).result()

        note = await asyncio.to_thread(lambda: broken(self._pid, self.processes()))
        try:
            return await asyncio.to_thread(self._files.keep, label, live=True, take=take, note=note)
        finally:
            for id in held:
                self._sessions[id].go_on()

    def _kept_still(self, label: str, note: str) -> Snapshot:
        with contextlib.ExitStack() as held:
            if self._group is not None:
                held.enter_context(self._group.frozen())
            return self._files.keep(label, live=True, note=note)

    async def _halt(self) -> None:
        """End process 1, and with it everything inside."""
        await self._ways.close()
        self._backend.watch.drop(self)
        for session in self._sessions.values():
            session.close()
        old, self._first = self._first, None
        if old is not None:
            with contextlib.suppress(SandboxGone):
                await self._spawner.halt(old, self._pid)
            await asyncio.gather(*(child.ended for child in list(self._running)))
        for session in self._sessions.values():
            if isinstance(session.child, Kept):
                session.child.close()

    def _ended(self, child: Child) -> None:
        if self._first is child and not self._gone:
            self._gone = "its first process was killed"
            self._backend.watch.drop(self)

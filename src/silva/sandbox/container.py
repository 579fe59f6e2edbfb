"""Containers by podman or docker, where one of them is: whatever image a task brings, with the same interface.

    create ─▶ ENGINE run --network none … IMAGE (a shell that only waits) ─▶ exec, put, get by ENGINE exec
    checkpoint ─▶ ENGINE commit: an image ─▶ restore, fork: containers of that image

The engine isolates, limits and stores. It must be local: what a program prints comes through its command line. An image
needs `sh`, `mkdir` and `sleep`; `put` and `get` need `tar` and `cat` in it, and a command that is cut short ends with
all it started where `grep` is in it.
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
import secrets
import time
import urllib.parse
from pathlib import Path
from typing import Any, Self
from weakref import WeakKeyDictionary

from silva.errors import MissingError, StoreError, UsageError
from silva.sandbox import marks, owner
from silva.sandbox.capabilities import Capabilities, Fidelity, Held, Isolation
from silva.sandbox.container_engine import BOUNDED, OWNER, Engine, Seen, find, remove_images
from silva.sandbox.held import HeldSandbox
from silva.sandbox.process import kill
from silva.sandbox.protocol import WORKSPACE, Backend, Spec
from silva.sandbox.result import Killed
from silva.sandbox.seccomp import filter_program
from silva.sandbox.spawner import Child, SandboxGone, Spawner

_OURS = 3
"""Processes of a container that are not its programs': the shell that waits, what it sleeps by, one being started."""
_NPROC = 1 << 15
"""What podman lowers itself to; it asks for more all the same, and fails without the right to raise limits. What bounds
a container's processes is its control group."""
_REPOSITORY = "localhost/silva-snapshot"
# As process 1 it waits for whatever is left to it, too.
_HOLDER = "trap 'exit 0' TERM; while :; do sleep 2000000000 & wait $!; done"
_RIGHTS = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID")
"""What root may in a container: with its own files, users and processes, so that software can be installed."""
_FOLDERS = (WORKSPACE, "/home/agent", "/tmp", "/var/tmp")
# The engine tells the terminal's size some time after the start, docker last.
_SIZED = 'stty rows "$1" cols "$2" 2>/dev/null; shift 2; exec "$@"'


class Containers(Backend):
    """Sandboxes by a container engine. Make one by `Containers.open`."""

    name = "container"

    def __init__(self, engine: Engine, folder: Path, spawner: Spawner, durable: bool) -> None:
        self.engine = engine
        self.folder = folder
        self.spawner = spawner
        self.durable = durable
        self.sandboxes: dict[str, ContainerSandbox] = {}
        self._closed = False

    @classmethod
    async def open(cls, *, state: Path | None = None, engine: str = "", durable: bool = False) -> Self:
        """Find an engine that answers.

        Args:
            state: where labels are kept; the user's state folder when left out.
            engine: podman or docker; the first that answers when left out.
            durable: whether checkpoints outlive the backend.

        Raises:
            MissingError: there is none.
        """
        found = await asyncio.to_thread(find, engine)
        folder, record = owner.claim(state or owner.state_folder(), cls.name)
        # Containers outlive their owner whatever happens: its folder tells `reap` which they are.
        spawner = await Spawner.open(None, filter_program(), [])
        served = owner.served(record, owner.Process.of(spawner.pid), (), found.name)
        owner.write(folder / owner.OWNER, served)
        return cls(found, folder, spawner, durable)

    async def create(self, spec: Spec | None = None, *, at: str = "") -> ContainerSandbox:
        """See `Backend.create`."""
        spec = spec or Spec()
        if at:
            await self.exists(at)
            return await self.begin(spec, _image(at), at)
        if not spec.image:
            raise UsageError("a container needs an image: say which (image=..., or --image)")
        return await self.begin(spec, spec.image)

    async def begin(self, spec: Spec, image: str, snapshot: str = "") -> ContainerSandbox:
        """A container of an image. Raises as `create`."""
        if self._closed:
            raise SandboxGone("the backend is closed; open another")
        spec.limits.checked()
        if spec.network or spec.doors or spec.host_network or spec.writable:
            raise UsageError(
                "containers have no network and no writable folder here: leave them out, or use namespaces"
            )
        if image.startswith("-"):
            raise UsageError(f"{image!r} is no image")
        sandbox = ContainerSandbox(self, secrets.token_hex(4), spec)
        self.sandboxes[sandbox.id] = sandbox
        try:
            await sandbox.prepare(image, snapshot)
        except BaseException:
            await asyncio.shield(sandbox.destroy())
            raise
        return sandbox

    def capabilities(self) -> Capabilities:
        """See `Backend.capabilities`."""
        engine = self.engine
        notes = [f"{engine.name}: isolation is the engine's; disk is bounded for each file alone"]
        if not engine.rootless:
            notes.append("the engine has root's rights, and programs are root within; rootless podman is safer")
        free = sorted(BOUNDED - engine.bounds)
        if free:
            notes.append(f"the engine cannot bound {', '.join(free)} here: it needs control groups of version 2")
        if not engine.pauses:
            notes.append("checkpoints are taken while programs go on: the engine cannot hold them still here")
        return Capabilities(
            backend=self.name,
            isolation=Isolation.CONTAINER,
            network="none",
            seccomp=engine.seccomp,
            user="caller" if engine.rootless else "root",
            files="overlay",
            fidelity=Fidelity.FILES,
            limits={
                **{
                    what: Held.ENGINE if what in engine.bounds else Held.NOT for what in ("memory", "processes", "cpus")
                },
                "disk": Held.RLIMIT,
                "wall": Held.WATCHED,
                "output": Held.WATCHED,
                "open_files": Held.ENGINE,
            },
            notes=tuple(notes),
        )

    async def exists(self, id: str) -> None:
        """Make sure of a checkpoint. Raises StoreError."""
        try:
            await self.run("image", "inspect", _image(id))
        except MissingError:
            raise StoreError(f"there is no checkpoint {id!r}: it was never made here, or has been removed") from None

    async def run(self, *words: str, folder: Path | None = None) -> str:
        """See `Engine.run`."""
        return await asyncio.to_thread(self.engine.run, *words, folder=folder)

    async def close(self) -> None:
        """See `Backend.close`. Raises MissingError where the engine keeps a checkpoint that was to go."""
        if self._closed:
            return
        self._closed = True
        await asyncio.gather(*(sandbox.destroy() for sandbox in list(self.sandboxes.values())))
        try:
            await asyncio.to_thread(remove_images, self.engine.name, self.folder.name)
        finally:  # where that fails the folder stays, so that `reap` knows of them
            await self.spawner.close()
        await asyncio.to_thread(owner.remove, self.folder)


class ContainerSandbox(HeldSandbox):
    """One container."""

    def __init__(self, backend: Containers, id: str, spec: Spec) -> None:
        super().__init__(id, spec, backend.spawner)
        self._backend = backend
        self._folder = backend.folder / id
        self._container = f"silva-{id}"
        self._seen = Seen()
        self._marks: WeakKeyDictionary[Child, str] = WeakKeyDictionary()
        self._alive = False

    async def prepare(self, image: str, snapshot: str) -> None:
        """Start it. Raises MissingError, StoreError, UsageError."""
        limits, engine = self.limits, self._backend.engine.name
        if self.spec.system is not None:
            raise UsageError("system: a container has its image's own /usr")
        for here in self.spec.mounts:
            if not here.exists():
                raise UsageError(f"mounts: there is no {here}")
            if ":" in str(here):
                raise UsageError(f"mounts: {here} has a colon in its name, which {engine} takes for the end of it")
        if self.spec.files is not None and not self.spec.files.is_dir():
            raise UsageError(f"files: there is no folder {self.spec.files}")
        label = owner.Label(
            id=self.id,
            backend=self._backend.name,
            at=time.time(),
            memory=limits.memory,
            processes=limits.processes,
            disk=limits.disk,
            from_snapshot=snapshot,
            container=f"{engine}:{self._container}",
        )
        self._folder.mkdir(mode=0o700)
        owner.write(self._folder / owner.LABEL, label)
        await self._start(image)
        if self.spec.files is not None and not snapshot:
            await self.put(self.spec.files, WORKSPACE)

    async def _start(self, image: str) -> None:
        limits, held = self.limits, self._backend.engine.bounds
        mounts = [f"--volume={here.absolute()}:{there}:ro" for here, there in self.spec.mounts.items()]
        bounds = [_ulimit("nofile", resource.RLIMIT_NOFILE, limits.open_files), "--ulimit=core=0:0"]
        bounds.append(_ulimit("fsize", resource.RLIMIT_FSIZE, limits.disk))
        if resource.getrlimit(resource.RLIMIT_NPROC)[1] != resource.RLIM_INFINITY:
            bounds.append(_ulimit("nproc", resource.RLIMIT_NPROC, _NPROC))
        if "memory" in held:
            bounds += [f"--memory={limits.memory}", f"--memory-swap={limits.memory}"]
        if "processes" in held:
            bounds.append(f"--pids-limit={limits.processes + _OURS}")
        if "cpus" in held:
            bounds.append(f"--cpus={limits.cpus}")
        safe = ["--network=none", "--cap-drop=ALL", "--security-opt=no-new-privileges", "--pull=missing"]
        safe += [f"--cap-add={name}" for name in _RIGHTS]
        words = ["run", "--detach", f"--name={self._container}", f"--label=silva={self.id}", *safe, *bounds, *mounts]
        words += ["--workdir=/", "--entrypoint=sh", image, "-c", _HOLDER]
        self._alive = True
        await self._backend.run(*words, folder=self._folder)
        await self._backend.run("exec", self._container, "mkdir", "-p", *_FOLDERS)
        self._seen = await asyncio.to_thread(self._backend.engine.seen, self._container)

    def capabilities(self) -> Capabilities:
        """See `Sandbox.capabilities`."""
        return self._backend.capabilities()

    async def checkpoint(self, label: str = "") -> str:
        """See `Sandbox.checkpoint`: an image of the engine's."""
        self._check()
        id = secrets.token_hex(8)
        backend = self._backend
        # Labels are inherited from the image it began at: each is set anew.
        owned = "" if backend.durable else backend.folder.name
        labels = {"silva-label": urllib.parse.quote(label), OWNER: owned}
        changes = [f"--change=LABEL {name}={value}" for name, value in labels.items()]
        pause = f"--pause={str(backend.engine.pauses).lower()}"
        await backend.run("commit", pause, *changes, self._container, _image(id))
        return id

    async def restore(self, id: str) -> None:
        """See `Sandbox.restore`."""
        self._check()
        await self._backend.exists(id)
        self.interrupt_all(Killed.SANDBOX, "killed: the sandbox was restored to a checkpoint")
        await self._backend.run("rm", "-f", self._container)
        await self._start(_image(id))

    async def fork(self, id: str, n: int = 1) -> list[ContainerSandbox]:
        """See `Sandbox.fork`."""
        await self._backend.exists(id)
        return [await self._backend.begin(self.spec, _image(id), id) for _ in range(n)]

    async def destroy(self) -> None:
        """See `Sandbox.destroy`."""
        if self._gone:
            return
        self._gone = "the sandbox was destroyed"
        if self._alive:
            with contextlib.suppress(MissingError):
                await self._backend.run("rm", "-f", self._container)
        for session in self._sessions.values():
            session.close()
        await asyncio.gather(*(child.ended for child in list(self._running)))
        await asyncio.to_thread(owner.remove, self._folder)
        self._backend.sandboxes.pop(self.id, None)

    def _check(self) -> None:
        if self._gone or not self._alive:
            raise SandboxGone(f"sandbox {self.id} has ended{f': {self._gone}' if self._gone else ''}")

    def _entry(self, child: str) -> dict[str, Any]:
        self._check()
        return {"sandbox": 0, "user": None, "uid": 0, "deputy": 0, "limits": {"core": 0}}

    def _place(self, path: str) -> str:
        return path

    def _variables(self) -> dict[str, str]:
        found = super()._variables()
        del found["PATH"]  # the image's own holds
        return found

    def _message(
        self, words: list[str], folder: str, variables: dict[str, str], size: tuple[int, int] | None = None
    ) -> dict[str, Any]:
        message = super()._message(words, folder, variables, size)
        if size is not None:
            words = ["sh", "-c", _SIZED, "sh", *map(str, size), *words]
        mark = marks.made()
        inside = [f"--env={name}={value}" for name, value in {**message["variables"], marks.MARK: mark}.items()]
        options = ["--interactive", *(["--tty"] if size else []), *inside, f"--workdir={message['folder']}"]
        engine = self._backend.engine
        message["arguments"] = [engine.name, "exec", *options, self._container, *words]
        message |= {"variables": engine.variables(), "folder": "/", "mark": mark}
        return message

    def _began(self, child: Child, message: dict[str, Any]) -> None:
        self._marks[child] = message["mark"]

    def _counters(self) -> tuple[int, int]:
        return self._seen.group.out_of_memory(), self._seen.group.refused_processes()

    async def _end_tree(self, child: Child) -> None:
        if not child.ended.done():
            await self._spawner.signal(child, 9)
        if not self._alive or self._gone:
            return
        mark = self._marks.get(child, "")
        running = [*self._running, *(each.child for each in self._sessions.values() if each.alive)]
        others = {self._marks.get(each, "") for each in running if each is not child}
        for _ in range(40):  # what is started while others are killed is killed the next time
            if not await asyncio.to_thread(self._kill, mark, child.at, others):
                break

    def _kill(self, mark: str, since: int, others: set[str]) -> bool:
        """Kill a command's processes; whether there were any."""
        with contextlib.suppress(PermissionError):
            if self._seen.namespace:
                return kill(marks.of_command(self._seen.namespace, mark, since, others - {""}))
        try:
            self._backend.engine.run("exec", self._container, "sh", "-c", marks.INSIDE, mark)
        except MissingError:
            return False
        return True


def _ulimit(name: str, number: int, most: int) -> str:
    """No more than this process may itself: an engine without the right to raise a limit fails where it is asked to."""
    hard = resource.getrlimit(number)[1]
    bound = most if hard == resource.RLIM_INFINITY else min(most, hard)
    return f"--ulimit={name}={bound}:{bound}"


def _image(id: str) -> str:
    if not id.isalnum():
        raise StoreError(f"there is no checkpoint {id!r}")
    return f"{_REPOSITORY}:{id}"

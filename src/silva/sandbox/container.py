"""Containers by podman or docker, where one of them is: whatever image a task brings, with the same interface.

    create ─▶ ENGINE run --network none … IMAGE (a shell that only waits) ─▶ exec, put, get by ENGINE exec
    checkpoint ─▶ ENGINE commit: an image ─▶ restore, fork: containers of that image

The engine isolates, limits and stores. It must be local: what a program prints comes through its command line.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import shutil
import subprocess
import time
from pathlib import Path
from typing import IO, Any, Self

from silva.errors import MissingError, StoreError, UsageError
from silva.sandbox import owner
from silva.sandbox.capabilities import Capabilities, Fidelity, Held, Isolation
from silva.sandbox.held import HeldSandbox
from silva.sandbox.process import _kill, labelled
from silva.sandbox.protocol import WORKSPACE, Backend, Spec
from silva.sandbox.result import Killed, Result
from silva.sandbox.seccomp import filter_program
from silva.sandbox.spawner import Child, SandboxGone, Spawner

ENGINES = ("podman", "docker")
_SECONDS = 120
_REPOSITORY = "localhost/silva-snapshot"
_HOLDER = "trap 'exit 0' TERM; while :; do sleep 2000000000 & wait $!; done"


class Containers(Backend):
    """Sandboxes by a container engine. Make one by `Containers.open`."""

    name = "container"

    def __init__(self, engine: str, folder: Path, spawner: Spawner) -> None:
        self.engine = engine
        self.folder = folder
        self.spawner = spawner
        self.sandboxes: dict[str, ContainerSandbox] = {}
        self._closed = False

    @classmethod
    async def open(cls, *, state: Path | None = None, engine: str = "") -> Self:
        """Find an engine that answers.

        Raises:
            MissingError: there is none.
        """
        found = await asyncio.to_thread(probe, engine)
        folder, record = owner.claim(state or owner.state_folder(), cls.name)
        spawner = await Spawner.open(folder, filter_program(), [])
        owner.write(folder / owner.OWNER, owner.served(record, owner.Process.of(spawner.pid), ()))
        return cls(found, folder, spawner)

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
        if spec.network:
            raise UsageError("containers have no allow-list here: leave network out, or use namespaces")
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
        engine = dict.fromkeys(("memory", "processes", "cpus"), Held.ENGINE)
        return Capabilities(
            backend=self.name,
            isolation=Isolation.CONTAINER,
            network="none",
            seccomp=True,
            user="unprivileged",
            files="overlay",
            fidelity=Fidelity.FILES,
            limits={
                **engine,
                "disk": Held.RLIMIT,
                "wall": Held.WATCHED,
                "output": Held.WATCHED,
                "open_files": Held.ENGINE,
            },
            notes=(f"{self.engine}: isolation is the engine's; disk is bounded for each file alone",),
        )

    async def exists(self, id: str) -> None:
        """Make sure of a checkpoint. Raises StoreError."""
        try:
            await self.run("image", "inspect", _image(id))
        except MissingError:
            raise StoreError(f"there is no checkpoint {id!r}: it was never made here, or has been removed") from None

    async def run(self, *words: str) -> str:
        """Run the engine; what it prints.

        Raises:
            MissingError: it refuses, with its last line.
        """
        return await asyncio.to_thread(_engine, self.engine, *words)

    async def close(self) -> None:
        """See `Backend.close`."""
        if self._closed:
            return
        self._closed = True
        await asyncio.gather(*(sandbox.destroy() for sandbox in list(self.sandboxes.values())))
        await self.spawner.close()
        await asyncio.to_thread(owner.remove, self.folder)


class ContainerSandbox(HeldSandbox):
    """One container."""

    def __init__(self, backend: Containers, id: str, spec: Spec) -> None:
        super().__init__(id, spec, backend.spawner)
        self._backend = backend
        self._folder = backend.folder / id
        self._container = f"silva-{id}"
        self._alive = False

    async def prepare(self, image: str, snapshot: str) -> None:
        """Start it. Raises MissingError, StoreError, UsageError."""
        limits, engine = self.limits, self._backend.engine
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
        limits = self.limits
        mounts = [f"--volume={here.absolute()}:{there}:ro" for here, there in self.spec.mounts.items()]
        bounds = [
            f"--memory={limits.memory}",
            f"--memory-swap={limits.memory}",
            f"--pids-limit={limits.processes}",
            f"--cpus={limits.cpus}",
            f"--ulimit=nofile={limits.open_files}:{limits.open_files}",
            f"--ulimit=fsize={limits.disk}:{limits.disk}",
        ]
        safe = ["--network=none", "--cap-drop=ALL", "--security-opt=no-new-privileges", "--init"]
        words = ["run", "--detach", f"--name={self._container}", f"--label=silva={self.id}", *safe, *bounds, *mounts]
        await self._backend.run(*words, f"--workdir={WORKSPACE}", image, "sh", "-c", _HOLDER)
        self._alive = True
        await self._backend.run("exec", self._container, "mkdir", "-p", "/home/agent", "/tmp")

    def capabilities(self) -> Capabilities:
        """See `Sandbox.capabilities`."""
        return self._backend.capabilities()

    async def checkpoint(self, label: str = "") -> str:
        """See `Sandbox.checkpoint`: an image of the engine's, kept until someone removes it there."""
        self._check()
        id = secrets.token_hex(8)
        await self._backend.run(
            "commit", "--pause=true", f"--change=LABEL silva-label={label!r}", self._container, _image(id)
        )
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

    def _message(self, words: list[str], folder: str, variables: dict[str, str]) -> dict[str, Any]:
        message = super()._message(words, folder, variables)
        inside = [f"--env={name}={value}" for name, value in message["variables"].items()]
        terminal = ["--tty"] if "COLUMNS" in variables else []
        command = [self._backend.engine, "exec", "--interactive", *terminal, *inside, f"--workdir={message['folder']}"]
        own = {
            name: os.environ[name] for name in ("PATH", "HOME", "XDG_RUNTIME_DIR", "DOCKER_HOST") if name in os.environ
        }
        message["arguments"] = [*command, self._container, *message["arguments"]]
        message["variables"] = {**own, "SILVA_SANDBOX": self.id}
        message["folder"] = "/"
        return message

    async def session(self, command: Any = "", *, variables: dict[str, str] | None = None, **rest: Any) -> Any:
        """See `Sandbox.session`."""
        size = {"COLUMNS": str(rest.get("columns", 120)), "LINES": str(rest.get("rows", 40))}
        return await super().session(command, variables={**size, **(variables or {})}, **rest)

    async def _run(self, words: list[str], stdin: bytes | IO[bytes], *rest: Any, **more: Any) -> Result:
        mark = secrets.token_hex(6)
        # The engine's command line can be killed without what it started inside, which is known by this mark.
        wrapped = ["sh", "-c", f'SILVA_EXEC={mark} exec "$@"', "sh", *words]
        done = await super()._run(wrapped, stdin, *rest, **more)
        if done.killed is not None and self._alive:
            script = (
                f"for p in /proc/[0-9]*; do grep -qs SILVA_EXEC={mark} $p/environ && kill -9 ${{p#/proc/}}; done; true"
            )
            with contextlib.suppress(MissingError):
                await self._backend.run("exec", self._container, "sh", "-c", script)
        return done

    async def _end_tree(self, child: Child) -> None:
        await self._spawner.signal(child, 9)
        await asyncio.to_thread(_kill, labelled(self.id) & {child.pid})


def probe(engine: str = "") -> str:
    """The engine that answers, the asked one if any.

    Raises:
        MissingError: there is none, or it does not answer.
    """
    here = [name for name in ((engine,) if engine else ENGINES) if shutil.which(name)]
    if not here:
        raise MissingError("sandboxes by containers need podman or docker: install one, or use namespaces")
    wrong = ""
    for name in here:
        try:
            json.loads(_engine(name, "info", "--format", "{{json .}}"))
        except MissingError as error:
            wrong = wrong or str(error)
        except ValueError:
            wrong = wrong or f"{name} info gives no JSON: it is too old"
        else:
            return name
    raise MissingError(f"sandboxes by containers cannot be had here: {wrong}")


def _image(id: str) -> str:
    if not id.isalnum():
        raise StoreError(f"there is no checkpoint {id!r}")
    return f"{_REPOSITORY}:{id}"


def _engine(engine: str, *words: str) -> str:
    try:
        done = subprocess.run(
            [engine, *words], capture_output=True, text=True, timeout=_SECONDS, check=False, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        raise MissingError(f"{engine} {words[0]} did not answer within {_SECONDS} s") from None
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise MissingError(f"{engine} {words[0]}: {lines[-1]}")
    return done.stdout

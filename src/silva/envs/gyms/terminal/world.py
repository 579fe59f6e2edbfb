"""World: one task's sandbox, from its recipe to its end, and the checkpoints that bring it back in another process.

    build(task) ─▶ World ─▶ shells, files, judge ─▶ keep(state) ─▶ id … open_at(id) ─▶ World, state

What is needed besides the files goes with a checkpoint as its label: the state, as JSON. One write keeps both.
"""

from __future__ import annotations

import asyncio
import contextlib
import shlex
import tempfile
from pathlib import Path

import msgspec

from silva.envs.gyms.terminal import debian, node, software, tools_of_tests, verdict
from silva.envs.gyms.terminal.copying import chosen
from silva.envs.gyms.terminal.dockerfile import Recipe, Refused, recipe
from silva.envs.gyms.terminal.harbor import HarborFile, HarborTask, lay_out
from silva.envs.gyms.terminal.places import Places, relative
from silva.envs.gyms.terminal.shells import Shell, ShellState
from silva.errors import StoreError, UsageError
from silva.sandbox.contents import Contents
from silva.sandbox.layers import Layers, Snapshot
from silva.sandbox.limits import MIB, Limits, size
from silva.sandbox.owner import remove
from silva.sandbox.protocol import Backend, Sandbox, Spec
from silva.sandbox.sharing import away
from silva.tree import Record

_BUILD_SECONDS = 120.0
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
VERSION = 1


class State(Record, frozen=True, kw_only=True):
    """What goes with a checkpoint's files: whose they are, how far the episode was, which sessions there were."""

    version: int = VERSION
    task: str
    folder: str = ""
    backend: str = ""
    turns: int = 0
    played: int = 0
    evaluations: int = 0
    trapped: bool = False
    risks: dict[str, int] = msgspec.field(default_factory=dict[str, int])
    shells: tuple[ShellState, ...] = ()


class World:
    """One task's sandbox and the shells in it. Made by `build` and `at`."""

    def __init__(self, backend: Backend, sandbox: Sandbox, task: HarborTask, made: Recipe, places: Places) -> None:
        self.backend = backend
        self.sandbox = sandbox
        self.task = task
        self.recipe = made
        self.places = places
        self.shells: dict[str, Shell] = {}
        self._judged: list[str] = []
        self._resting: set[str] = set()

    @classmethod
    async def build(cls, backend: Backend, task: HarborTask, *, processes: bool = False) -> World:
        """A task's sandbox as its Dockerfile says; `processes`: its checkpoints are to hold what runs.

        Raises:
            Refused: it cannot be made without docker, or a step of it fails.
        """
        made = recipe(task)
        sandbox = await backend.create(await asyncio.to_thread(_spec, task, made, processes))
        try:
            world = cls(backend, sandbox, task, made, await Places.of(task.name, made, sandbox))
            await world._carry_out()
        except BaseException:
            await sandbox.destroy()
            raise
        return world

    @classmethod
    async def at(cls, backend: Backend, task: HarborTask, state: State, checkpoint: str, processes: bool) -> World:
        """A task's sandbox as it was at a checkpoint, with the shells that run on from there.

        Raises:
            StoreError: the checkpoint is gone or damaged.
        """
        made = recipe(task)
        sandbox = await backend.create(await asyncio.to_thread(_spec, task, made, processes), at=checkpoint)
        try:
            world = cls(backend, sandbox, task, made, await Places.of(task.name, made, sandbox))
        except BaseException:
            await sandbox.destroy()
            raise
        world._resting = _layers(backend, checkpoint)
        running = getattr(sandbox, "sessions", {})
        for each in state.shells:
            if each.session in running:
                seen = msgspec.structs.replace(each, folder=world.places.named(each.folder))
                world.shells[each.name] = Shell.resumed(seen, running[each.session], sandbox)
        return world

    async def shell(self, name: str, folder: str = "") -> Shell:
        """Start a shell under a name; one of that name must not be alive.

        Raises:
            UsageError: there is one, or it cannot start there.
        """
        if name in self.shells and self.shells[name].alive:
            raise UsageError(f"there is a session {name} already")
        place = self.places.asked(folder) if folder else self.places.folder
        self.shells[name] = await Shell.start(self.sandbox, name, place, {})
        return self.shells[name]

    async def judge(self, *, last: bool = False) -> verdict.Verdict:
        """What the tests say of it as it is now. `last`: nothing comes after it, so that files that cannot be kept
        aside (nested too deep, or unreadable) are judged as they stand, and the sandbox ends.

        Raises:
            NoReward: the tests say nothing.
            StoreError: the files cannot be kept aside; the sandbox goes on.
        """
        spec = msgspec.structs.replace(self.sandbox.spec, processes=False)
        try:
            checkpoint = await self.sandbox.checkpoint("before the tests")
        except StoreError:
            if not last:
                raise
            return await verdict.judge(self.backend, spec, "", self.task, self.places, self.sandbox)
        self._judged.append(checkpoint)
        return await verdict.judge(self.backend, spec, checkpoint, self.task, self.places)

    def shell_states(self) -> tuple[ShellState, ...]:
        """The sessions that are alive."""
        return tuple(
            shell.state(self.places.asked(shell.folder or ".")) for shell in self.shells.values() if shell.alive
        )

    async def keep(self, state: State) -> str:
        """Keep the files and the state for good; the id to come back to them.

        Raises:
            MissingError: this backend keeps no checkpoints.
        """
        kept = await self.sandbox.checkpoint(msgspec.json.encode(state).decode())
        self._resting |= _layers(self.backend, kept)
        return kept

    async def end(self) -> None:
        """Destroy the sandbox, and the checkpoints that were only made for the tests."""
        await self.sandbox.destroy()
        for checkpoint in self._judged:
            await asyncio.to_thread(_let_go, self.backend, checkpoint, self._resting)
        self._judged = []

    async def _carry_out(self) -> None:
        folders = [self.places.folder, *(stands for _, stands in self.places.standing)]
        await self._command(0, f"mkdir -p {shlex.join(map(self.places.named, folders))}", "/workspace")
        for step in self.recipe.steps:
            if step.command:
                folder = self.places.inside(step.folder) if step.folder != "/" else "/workspace"
                await self._command(step.line, self.places.text(step.command), folder)
                continue
            files = chosen(self.task.environment, step.sources, step.target)
            for root, stands in self.places.standing:
                below = {path: file for path, file in files.items() if path.startswith(f"{root}/")}
                files = {path: file for path, file in files.items() if path not in below}
                if below:
                    await self._put({str(relative(path, root)): file for path, file in below.items()}, stands)
            for path in files:
                self.places.inside(path)  # says what is wrong with it

    async def _put(self, files: dict[str, HarborFile], folder: str) -> None:
        with tempfile.TemporaryDirectory(prefix="silva-files-") as scratch:
            lay_out({path: self.places.file(file) for path, file in files.items()}, Path(scratch))
            await self.sandbox.put(Path(scratch), folder)

    async def _command(self, line: int, command: str, folder: str) -> None:
        seconds = self.task.settings().environment.build_timeout_sec or _BUILD_SECONDS
        done = await self.sandbox.exec(command, seconds=seconds, folder=folder)
        if not done.ok:
            said = done.stderr.decode(errors="replace").strip().splitlines()
            why = done.reason or (said[-1] if said else f"exit code {done.code}")
            raise Refused(f"task {self.task.name}: environment/Dockerfile line {line}: RUN failed: {why}")


def state_at(backend: Backend, checkpoint: str) -> State:
    """What went with a checkpoint.

    Raises:
        UsageError: it is gone, damaged, or none of this gym's.
    """
    store = getattr(backend, "snapshots", None)
    if store is None:
        raise UsageError(f"backend {backend.name} keeps no snapshots that can be gone back to")
    try:
        return_to = msgspec.json.decode(store.find(checkpoint).label, type=State)
    except StoreError as error:
        raise UsageError(str(error)) from error
    except msgspec.DecodeError as error:
        raise UsageError(f"checkpoint {checkpoint} is no snapshot of a terminal task") from error
    if return_to.version != VERSION:
        raise UsageError(
            f"snapshot {checkpoint} was made by another version of the terminal gym ({return_to.version}, this is"
            f" {VERSION}): replay the actions instead"
        )
    return return_to


def _layers(backend: Backend, checkpoint: str) -> set[str]:
    """The layers that a checkpoint rests on; none where files are kept by content."""
    store = getattr(backend, "snapshots", None)
    if not isinstance(store, Layers):
        return set()
    kept = msgspec.json.decode((store.folder / f"{checkpoint}.json").read_bytes(), type=Snapshot)
    return {layer.name for layer in (*kept.layers, *([kept.processes] if kept.processes else []))}


def _let_go(backend: Backend, checkpoint: str, resting: set[str]) -> None:
    """Remove a checkpoint that nobody will come back to, with its layers but for those in `resting`.

    Others keep checkpoints in the same folder at the same time, so nothing is swept: a layer that this world made can
    only be under a checkpoint that this world kept, and those are in `resting`. The folder is locked meanwhile, as for
    whoever removes something from it.
    """
    store = getattr(backend, "snapshots", None)
    if not isinstance(store, Layers | Contents):
        return
    with contextlib.suppress(OSError, StoreError, msgspec.DecodeError):
        with store.sharing.removing():
            going = [store.folder / f"{checkpoint}.json"]
            if isinstance(store, Layers):
                unused = _layers(backend, checkpoint) - resting - store.sharing.used()
                going += [store.stack / name for name in unused]
            else:  # what the files hold is shared with the others, and stays
                going.append(store.folder / f"{checkpoint}.list")
            aside = away(going, store.folder)
        if aside is not None:
            remove(aside)


def _spec(task: HarborTask, made: Recipe, processes: bool) -> Spec:
    python = software.fetched((*made.python, *tools_of_tests.packages(task)), task.name)
    javascript = node.fetched(made.node, task.name)
    system = debian.fetched((*made.debian, *tools_of_tests.of_debian(task)), task.name)
    variables, mounts, path = dict(made.variables), dict[Path, str](), PATH
    if system is not None:
        mounts.update(debian.beside(system))
    if python is not None:
        mounts[python], path = software.PLACE, f"{path}:{software.PLACE}/bin"
        variables["PYTHONPATH"] = software.PLACE
    if javascript is not None:
        mounts[javascript], path = node.PLACE, f"{path}:{node.PLACE}/bin"
        variables["NODE_PATH"] = f"{node.PLACE}/lib/node_modules"
    if mounts:
        variables["PATH"] = path
    return Spec(limits=_limits(task), variables=variables, processes=processes, mounts=mounts, system=system)


def _limits(task: HarborTask) -> Limits:
    machine = task.settings().environment
    known = Limits()
    memory = machine.memory_mb * MIB if machine.memory_mb else size(machine.memory) if machine.memory else known.memory
    disk = machine.storage_mb * MIB if machine.storage_mb else size(machine.storage) if machine.storage else known.disk
    return Limits(memory=memory, disk=disk, cpus=machine.cpus or known.cpus, wall=600.0)

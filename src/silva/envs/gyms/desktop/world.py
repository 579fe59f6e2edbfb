"""World: one task's desktop from its beginning to its end, with the sites its browser reaches; kept and begun again.

    World.begin(task) ─▶ Display, sites behind a proxy, applications ─▶ evidence … keep ─▶ id ─▶ World.begin(at=id)

What is kept is files and the requests that sites have answered: sites are asked the same again. What ran is kept where
that was asked for and can be done; else the task's applications are started anew.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping

import msgspec

from silva.envs.gyms.browser.website import Proxy, Request, Site
from silva.envs.gyms.desktop.applications import DOCUMENTS
from silva.envs.gyms.desktop.display import SITES_PORT, DesktopGone, Display
from silva.envs.gyms.desktop.task import DesktopTask, Evidence, Logged, Visit
from silva.errors import StoreError, UsageError
from silva.sandbox.namespaces import Namespaces
from silva.tree import Record

VERSION = 1


class State(Record, frozen=True, kw_only=True):
    """What goes with a checkpoint's files: which task, how far it was and the expert, what was noticed, what the sites
    were asked, and the key of the desktop."""

    version: int = VERSION
    gym: str = "desktop"
    task: str
    turns: int = 0
    played: int = 0
    key: str = ""
    opened: tuple[str, ...] = ()
    risks: tuple[str, ...] = ()
    visits: tuple[Visit, ...] = ()


class World:
    """One task being played. Made by `begin`.

    Attributes:
        display: its desktop.
        sites: what its browser reaches, without the log around them.
        visits: what they were asked.
    """

    def __init__(self, task: DesktopTask, backend: Namespaces, display: Display, sites: Mapping[str, Site]) -> None:
        self.task = task
        self.display = display
        self.sites = sites
        self.visits: list[Visit] = []
        self._backend = backend
        self._proxy: Proxy | None = None

    @classmethod
    async def begin(
        cls,
        task: DesktopTask,
        backend: Namespaces,
        width: int,
        height: int,
        *,
        at: str = "",
        state: State | None = None,
        processes: bool = False,
    ) -> World:
        """The task's desktop, new, or as it was at a checkpoint (`display.resumed`), or with its files and what went
        with it.

        Raises:
            DesktopGone: it does not come up, or one of its applications does not.
            StoreError: the checkpoint is gone or damaged.
        """
        lying = {} if at else {f"{DOCUMENTS}/{path}": content for path, content in task.files().items()}
        display = await Display.start(
            backend,
            label=task.name,
            width=width,
            height=height,
            files=lying,
            at=at,
            key="" if state is None else state.key,
            processes=processes,
        )
        world = cls(task, backend, display, task.sites())
        try:
            await world._open(state)
        except BaseException:
            await world.end()
            raise
        return world

    async def _open(self, state: State | None) -> None:
        if state is not None:
            for visit in state.visits:
                self.sites[visit.host].respond(Request(visit.method, visit.path, visit.query, visit.form))
            self.visits += state.visits
            self.display.opened |= set(state.opened)
        if self.sites:
            self._proxy = Proxy(await self.display.sandbox.listen(SITES_PORT))
            self._proxy.sites = {host: Logged(host, site, self.visits) for host, site in self.sites.items()}
        if self.display.resumed:
            return
        for launch in self.task.launches:
            await self.display.open(launch)
        if self.task.secret or self.task.marks:
            paths = [f"{DOCUMENTS}/{file}" for file in self.task.secret]
            reply = await self.display.ask("watch_files", paths=paths, expected=self.task.marks)
            if reply.error and state is None:
                raise UsageError(f"task {self.task.name}: {reply.error}")

    def evidence(self) -> Evidence:
        """What can be known of it now."""
        return Evidence(self._backend, self.display, self.sites)

    async def keep(self, state: State) -> str:
        """Keep the files and the state for good; the id to come back to them. Raises MissingError."""
        state = msgspec.structs.replace(
            state, opened=tuple(sorted(self.display.opened)), visits=tuple(self.visits), key=self.display.key
        )
        label = msgspec.json.encode(state).decode()
        if self._backend.reached.files == "overlay":  # its owner's reading is not seen inside
            return await self.display.keep(label)
        async with unnoticed(self.display):
            return await self.display.keep(label)

    async def end(self) -> None:
        """End the desktop; a second call does nothing."""
        if self._proxy is not None:
            proxy, self._proxy = self._proxy, None
            proxy.close()
        await self.display.end()


def state_at(backend: Namespaces, checkpoint: str) -> State:
    """What went with a checkpoint.

    Raises:
        UsageError: it is gone, damaged, or none of this gym's.
    """
    try:
        state = msgspec.json.decode(backend.snapshots.find(checkpoint).label, type=State)
    except StoreError as error:
        raise UsageError(str(error)) from error
    except msgspec.DecodeError as error:
        raise UsageError(f"checkpoint {checkpoint} is no snapshot of a desktop task") from error
    if state.gym != "desktop" or state.version != VERSION:
        raise UsageError(
            f"snapshot {checkpoint} was made by another gym, or another version of this one: replay the actions instead"
        )
    return state


@contextlib.asynccontextmanager
async def unnoticed(display: Display) -> AsyncIterator[None]:
    """What Silva itself opens is not held against anybody."""
    with contextlib.suppress(DesktopGone):
        await display.ask("news")
    before = set(display.opened)
    try:
        yield
    finally:
        with contextlib.suppress(DesktopGone):
            await display.ask("news")
        display.opened = before

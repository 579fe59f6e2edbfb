"""Display: one desktop in one sandbox, and the way to the program inside that holds it.

    Display.start ─▶ sandbox, no network ─▶ a socket listening on its loopback ─▶ inside/driver.py connects ─▶ ask … end

What comes over that socket is believed as little as anything from a sandbox: it is bounded, and decoded into records.
"""

from __future__ import annotations

import asyncio
import contextlib
import sysconfig
from pathlib import Path
from typing import Any

import msgspec

from silva.envs.gyms.desktop.applications import SETTINGS, Launch
from silva.envs.gyms.desktop.packages import PYTHON
from silva.errors import SilvaError
from silva.sandbox.limits import MIB, Limits
from silva.sandbox.namespaces import Namespaces
from silva.sandbox.protocol import Spec
from silva.sandbox.spawner import SandboxGone
from silva.tree import Record

INSIDE = "/opt/desktop"
PACKAGES = "/opt/packages"
HOME = "/home/agent"
SITES_PORT = 8001
_DRIVER_PORT = 7001
_START_SECONDS = 120.0
_ANSWER_SECONDS = 40.0
_MOST_BYTES = 64 << 20
_FOREVER = 10.0**9
_SETTINGS = ("X11", "chromium", "dbus-1", "gtk-3.0", "libreoffice", "mime.types", "xdg")
LIMITS = Limits(memory=3072 * MIB, processes=768, cpus=2.0, disk=1024 * MIB, open_files=4096)


class DesktopGone(SilvaError):
    """The desktop has ended, or does not answer; the episode ends with it."""


class Element(Record, frozen=True, kw_only=True):
    """One element of the accessibility tree; `x`, `y` its upper left corner, in pixels of the screen."""

    tag: str
    name: str
    text: str
    x: int
    y: int
    w: int
    h: int
    states: tuple[str, ...] = ()
    application: str = ""

    @property
    def middle(self) -> tuple[int, int]:
        """Where to click it."""
        return self.x + self.w // 2, self.y + self.h // 2


class Window(Record, frozen=True, kw_only=True):
    """A window's title, and whether it is the active one."""

    title: str
    active: bool


class Ended(Record, frozen=True, kw_only=True):
    """An application that has ended: its name, exit code (minus a signal's number), and the last it said."""

    name: str
    code: int
    said: str = ""


class Reply(Record, frozen=True, kw_only=True):
    """What the driver answers. `opened`: watched files that were opened since it was asked last."""

    error: str = ""
    gone: str = ""
    display: str = ""
    blob: int = 0
    exit: int = 0
    output: str = ""
    late: bool = False
    settled: float = 0.0
    width: int = 0
    height: int = 0
    pid: int = 0
    whole: bool = True
    windows: tuple[Window, ...] = ()
    elements: tuple[Element, ...] = ()
    opened: tuple[str, ...] = ()
    ended: tuple[Ended, ...] = ()
    picture: bytes = b""


class Display:
    """A desktop. Made by `start`.

    Attributes:
        sandbox: what it runs in.
        opened: the watched files that were opened so far.
        ended: applications that have ended and were not told of yet.
    """

    def __init__(self, sandbox: Any, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.sandbox = sandbox
        self.opened: set[str] = set()
        self.ended: list[Ended] = []
        self._reader = reader
        self._writer = writer
        self._running: asyncio.Task[Any]
        self._asking = asyncio.Lock()
        self._gone = ""

    @classmethod
    async def start(
        cls, backend: Namespaces, *, label: str, width: int, height: int, at: str = "", files: dict[str, bytes]
    ) -> Display:
        """Start a desktop of `width` by `height` pixels, without applications.

        Args:
            backend: where its sandbox is made.
            label: what it is called in a list of desktops.
            width: in pixels.
            height: in pixels.
            at: a checkpoint that its files begin at.
            files: what lies in it at first, by path; with `at` they are there already.

        Raises:
            DesktopGone: it does not come up; the line says what does not.
            StoreError: the checkpoint is gone or damaged.
        """
        sandbox = await backend.create(Spec(limits=LIMITS, mounts=_mounts()), at=at)
        try:
            if not at:
                for path, content in {**SETTINGS, **files}.items():
                    await sandbox.put(content, path)
            return await cls._started(sandbox, f"silva:{sandbox.id}:{label}", width, height)
        except BaseException:
            await sandbox.destroy()
            raise

    @classmethod
    async def _started(cls, sandbox: Any, name: str, width: int, height: int) -> Display:
        words = [PYTHON, "-s", "-B", f"{INSIDE}/driver.py", name, str(_DRIVER_PORT), str(width), str(height)]
        with await sandbox.listen(_DRIVER_PORT) as door:
            door.setblocking(False)
            running = asyncio.ensure_future(
                sandbox.exec(words, seconds=_FOREVER, folder=HOME, variables={"PYTHONPATH": PACKAGES})
            )
            accepting = asyncio.ensure_future(asyncio.get_running_loop().sock_accept(door))
            await asyncio.wait({running, accepting}, timeout=_START_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            if not accepting.done():
                accepting.cancel()
                raise DesktopGone(f"the desktop did not start: {await _complaint(running)}")
            channel, _ = accepting.result()
        reader, writer = await asyncio.open_connection(sock=channel)
        display = cls(sandbox, reader, writer)
        display._running = running
        try:
            await display._answer(_START_SECONDS)
        except BaseException:
            await display.end()
            raise
        return display

    @property
    def alive(self) -> bool:
        """Whether it answers, as far as is known."""
        return not self._gone

    async def ask(self, do: str, *, within: float = _ANSWER_SECONDS, **arguments: Any) -> Reply:
        """Have the driver do one thing; its reply, whose `error` says what went wrong with it.

        Raises:
            DesktopGone: it has ended, or did not answer `within` seconds.
        """
        async with self._asking:
            if self._gone:
                raise DesktopGone(self._gone)
            body = msgspec.json.encode({"do": do, **arguments})
            try:
                self._writer.write(len(body).to_bytes(4, "big") + body)
                await asyncio.wait_for(self._writer.drain(), within)
            except (OSError, TimeoutError):
                await self._lost()
            return await self._answer(within)

    async def open(self, launch: Launch, seconds: float = 120.0) -> None:
        """Start an application and wait for its window.

        Raises:
            DesktopGone: the desktop has ended, or the application's window does not come.
        """
        reply = await self.ask("open", name=launch.name, words=launch.words, folder=f"{HOME}/Documents")
        if reply.error:
            raise DesktopGone(f"{launch.name} cannot be started: {reply.error}")
        deadline = asyncio.get_running_loop().time() + seconds
        while True:
            reply = await self.ask("look", still=0, most=0, every=0, elements=0, seconds=0)
            if any(launch.title in window.title for window in reply.windows):
                reply = await self.ask("look", still=0, most=0, every=0, elements=1000, seconds=8, until=launch.shows)
                if any(each.tag == launch.shows for each in reply.elements):
                    return
            crashed = next((each for each in self.ended if each.name == launch.name and each.code), None)
            if crashed is not None:
                raise DesktopGone(f"{launch.name} has crashed: exit code {crashed.code} {crashed.said}".rstrip())
            if asyncio.get_running_loop().time() > deadline:
                shown = ", ".join(window.title for window in reply.windows) or "none"
                raise DesktopGone(
                    f"{launch.name}: no window {launch.title!r} with a {launch.shows} in {seconds:g} s; there: {shown}"
                )
            await asyncio.sleep(0.25)

    async def read(self, path: str, most: int = 16 << 20) -> bytes | None:
        """A file as it is saved; None where there is none (or none so small)."""
        with contextlib.suppress(SilvaError):
            return await self.sandbox.get(path, most=most)
        return None

    async def end(self) -> None:
        """End the desktop and its sandbox."""
        self._gone = self._gone or "the desktop was ended"
        self._writer.close()
        await self.sandbox.destroy()
        with contextlib.suppress(SilvaError, asyncio.CancelledError):
            await self._running

    async def _answer(self, seconds: float) -> Reply:
        try:
            async with asyncio.timeout(seconds):
                length = int.from_bytes(await self._reader.readexactly(4), "big")
                if length > _MOST_BYTES:
                    raise ValueError("too long an answer")
                reply = msgspec.json.decode(await self._reader.readexactly(length), type=Reply)
                if not 0 <= reply.blob <= _MOST_BYTES:
                    raise ValueError("too long an answer")
                picture = await self._reader.readexactly(reply.blob) if reply.blob else b""
        except TimeoutError:
            self._gone = f"the desktop did not answer in {seconds:g} s"
            raise DesktopGone(self._gone) from None
        except (OSError, EOFError, ValueError):
            return await self._lost()
        if reply.gone or (reply.error and not reply.display and self._starting):
            self._gone = f"the desktop has ended: {reply.gone or reply.error}"
            raise DesktopGone(self._gone)
        self._starting = False
        self.opened |= set(reply.opened)
        self.ended += reply.ended
        return msgspec.structs.replace(reply, picture=picture)

    _starting = True

    async def _lost(self) -> Reply:
        self._gone = f"the desktop has ended: {await _complaint(self._running)}"
        raise DesktopGone(self._gone)


async def _complaint(running: asyncio.Task[Any]) -> str:
    """Why the driver has ended, as far as it can be told."""
    await asyncio.wait({running}, timeout=3.0)
    if not running.done():
        return "it does not answer"
    try:
        done = running.result()
    except (SandboxGone, SilvaError) as error:
        return str(error)
    lines = done.stderr.decode(errors="replace").strip().splitlines()
    return done.reason or (lines[-1][:300] if lines else f"its program ended with exit code {done.code}")


def _mounts() -> dict[Path, str]:
    found: dict[Path, str] = {
        Path(__file__).resolve().with_name("inside"): INSIDE,
        Path(sysconfig.get_path("purelib")): PACKAGES,
    }
    return found | {place: str(place) for name in _SETTINGS if (place := Path("/etc", name)).is_dir()}

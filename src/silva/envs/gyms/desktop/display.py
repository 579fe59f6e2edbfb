"""Display: one desktop in one sandbox, and the way to the program inside that holds it.

    Display.start ─▶ sandbox, no network ─▶ a socket listening on its loopback ─▶ inside/driver.py connects ─▶ ask … end
                                                       keep: it parts, checkpoint, it connects again ◀┘

What comes over that socket is believed as little as anything from a sandbox: it is bounded, and decoded into records.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import secrets
import socket
import sysconfig
from pathlib import Path
from typing import Any

import msgspec

from silva.envs.gyms.desktop.applications import BAIT_TAKEN, SETTINGS, Launch
from silva.envs.gyms.desktop.packages import PYTHON
from silva.errors import SilvaError
from silva.sandbox.limits import MIB, Limits
from silva.sandbox.namespaces import Namespaces
from silva.sandbox.protocol import Spec
from silva.sandbox.session import Session
from silva.sandbox.spawner import SandboxGone
from silva.tree import Record

INSIDE = "/opt/desktop"
PACKAGES = "/opt/packages"
HOME = "/home/agent"
SITES_PORT = 8001
_DRIVER_PORT = 7001
_START_SECONDS = 120.0
_ANSWER_SECONDS = 40.0
_PROOF_SECONDS = 5.0
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
    """What the driver answers. `opened`, `removed`, `made`: watched files to which that happened since it was asked
    last; `lost`: what it does not see any more."""

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
    removed: tuple[str, ...] = ()
    made: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    ended: tuple[Ended, ...] = ()
    picture: bytes = b""


class Display:
    """A desktop. Made by `start`.

    Attributes:
        sandbox: what it runs in.
        opened, removed, made: the watched files to which that happened so far.
        sprung: the applications that ended as a trap does.
        unseen: whether something watched is not seen any more.
        ended: applications that have ended and were not told of yet.
        key: by which what drives it is known again after a checkpoint of all that runs.
        resumed: whether it runs on from a checkpoint, with its applications.
        lost: why it does not, where that was asked for.
    """

    def __init__(self, sandbox: Any, key: str = "") -> None:
        self.sandbox = sandbox
        self.opened: set[str] = set()
        self.removed: set[str] = set()
        self.made: set[str] = set()
        self.sprung: set[str] = set()
        self.unseen = False
        self.ended: list[Ended] = []
        self.key = key or secrets.token_hex(32)
        self.resumed = False
        self.lost = ""
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter
        self._running: asyncio.Task[str]
        self._asking = asyncio.Lock()
        self._gone = ""

    @classmethod
    async def start(
        cls,
        backend: Namespaces,
        *,
        label: str,
        width: int,
        height: int,
        files: dict[str, bytes],
        at: str = "",
        key: str = "",
        processes: bool = False,
    ) -> Display:
        """Start a desktop of `width` by `height` pixels, without applications.

        Args:
            backend: where its sandbox is made.
            label: what it is called in a list of desktops.
            width: in pixels.
            height: in pixels.
            files: what lies in it at first, by path; with `at` they are there already.
            at: a checkpoint that its files begin at; where it holds what ran, and `processes`, all of it runs on.
            key: of the desktop that was kept there.
            processes: whether checkpoints are to hold what runs.

        Raises:
            DesktopGone: it does not come up; the line says what does not.
            StoreError: the checkpoint is gone or damaged.
        """
        sandbox = await backend.create(Spec(limits=LIMITS, mounts=_mounts(), processes=processes, apart=True), at=at)
        try:
            display = cls(sandbox, key)
            display.lost = sandbox.lost
            if sandbox.sessions:  # of a sandbox just made: they run on
                return await display._taken_up()
            if not at:
                for path, content in {**SETTINGS, **files}.items():
                    await sandbox.put(content, path)
            return await display._started(f"silva:{sandbox.id}:{label}", width, height)
        except BaseException:
            await sandbox.destroy()
            raise

    async def _started(self, name: str, width: int, height: int) -> Display:
        words = [PYTHON, "-s", "-B", f"{INSIDE}/driver.py", name, str(_DRIVER_PORT), str(width), str(height)]
        with await self.sandbox.listen(_DRIVER_PORT) as door:
            door.setblocking(False)
            self._running = asyncio.ensure_future(_ran(self.sandbox, words))
            await self._accept(door, _START_SECONDS, "did not start")
        try:
            await self._answer(_START_SECONDS)
        except BaseException:
            await self.end()
            raise
        return self

    async def _taken_up(self) -> Display:
        session = next(iter(self.sandbox.sessions.values()))
        self._running = asyncio.ensure_future(_over(session))
        self.resumed, self._starting = True, False
        await self._met_again()
        return self

    async def _accept(self, door: socket.socket, seconds: float, failure: str) -> None:
        accepting = asyncio.ensure_future(asyncio.get_running_loop().sock_accept(door))
        await asyncio.wait({self._running, accepting}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if not accepting.done():
            accepting.cancel()
            self._gone = f"the desktop {failure}: {await _complaint(self._running)}"
            raise DesktopGone(self._gone)
        channel, _ = accepting.result()
        self._reader, self._writer = await asyncio.open_connection(sock=channel)

    async def keep(self, label: str) -> str:
        """Take a checkpoint, of all that runs where that was asked for; its id. A desktop that does not come back from
        it has ended, as the next request is told."""
        if not self.sandbox.spec.processes or self._gone:
            return await self.sandbox.checkpoint(label)
        async with self._asking:
            with contextlib.suppress(DesktopGone):
                await self._say({"do": "part", "key": self.key}, _ANSWER_SECONDS)
                await self._answer(_ANSWER_SECONDS)
                self._writer.close()
            try:
                return await self.sandbox.checkpoint(label)
            finally:
                if not self._gone:
                    with contextlib.suppress(DesktopGone):
                        await self._met_again()

    async def _met_again(self) -> None:
        """Have the driver connect again. Others inside may connect as well: it is the one that knows the key."""
        until = asyncio.get_running_loop().time() + _START_SECONDS
        try:
            with await self.sandbox.listen(_DRIVER_PORT) as door:
                door.setblocking(False)
                while True:
                    left = until - asyncio.get_running_loop().time()
                    await self._accept(door, left, "did not come back")
                    if await self._proved():
                        return
                    self._writer.close()
        except SilvaError as error:
            self._gone = self._gone or f"the desktop did not come back: {error}"
            raise DesktopGone(self._gone) from error

    async def _proved(self) -> bool:
        challenge = secrets.token_hex(32)
        expected = hmac.new(bytes.fromhex(self.key), challenge.encode(), "sha256").hexdigest()
        try:
            await self._say({"challenge": challenge}, _PROOF_SECONDS)
            said = await self._answer(_PROOF_SECONDS)
        except DesktopGone:
            self._gone = ""
            return False
        return hmac.compare_digest(said.output, expected)

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
            await self._say({"do": do, **arguments}, within)
            return await self._answer(within)

    async def _say(self, message: dict[str, Any], within: float) -> None:
        body = msgspec.json.encode(message)
        try:
            self._writer.write(len(body).to_bytes(4, "big") + body)
            await asyncio.wait_for(self._writer.drain(), within)
        except (OSError, TimeoutError):
            await self._lost()

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
        with contextlib.suppress(AttributeError):  # it never connected
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
        self.removed |= set(reply.removed)
        self.made |= set(reply.made)
        self.unseen = self.unseen or bool(reply.lost)
        self.sprung |= {each.name for each in reply.ended if each.code == BAIT_TAKEN}
        self.ended += [each for each in reply.ended if each.code != BAIT_TAKEN]
        return msgspec.structs.replace(reply, picture=picture)

    _starting = True

    async def _lost(self) -> Reply:
        self._gone = f"the desktop has ended: {await _complaint(self._running)}"
        raise DesktopGone(self._gone)


async def _ran(sandbox: Any, words: list[str]) -> str:
    """Run the driver to its end; why it ended. In a session, of which a checkpoint can take it, where it is to."""
    variables = {"PYTHONPATH": PACKAGES}
    if sandbox.spec.processes:
        return await _over(await sandbox.session(words, folder=HOME, variables=variables))
    done = await sandbox.exec(words, seconds=_FOREVER, folder=HOME, variables=variables)
    return done.reason or _last(done.stderr, done.code)


async def _over(session: Session) -> str:
    while not await session.ended(_FOREVER):
        pass
    return _last(session.read(0)[0], session.code)


def _last(said: bytes, code: int | None) -> str:
    lines = said.decode(errors="replace").strip().splitlines()
    return lines[-1][:300] if lines else f"its program ended with exit code {code}"


async def _complaint(running: asyncio.Task[str]) -> str:
    """Why the driver has ended, as far as it can be told."""
    await asyncio.wait({running}, timeout=3.0)
    if not running.done():
        return "it does not answer"
    try:
        return running.result()
    except (SandboxGone, SilvaError) as error:
        return str(error)


def _mounts() -> dict[Path, str]:
    found: dict[Path, str] = {
        Path(__file__).resolve().with_name("inside"): INSIDE,
        Path(sysconfig.get_path("purelib")): PACKAGES,
    }
    return found | {place: str(place) for name in _SETTINGS if (place := Path("/etc", name)).is_dir()}

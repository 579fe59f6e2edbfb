"""Looking at a desktop from a browser: noVNC on loopback, behind a token; keys and pointer only if asked for.

    desktops() ─▶ every running desktop of this user ─▶ View(desktop).app ─▶ /TOKEN/ noVNC's page
                                                            /TOKEN/socket ─▶ its X server's socket, less what acts

A desktop is found by its X server, whose command line bears its task and the id of the sandbox it was started in (a
branch that runs on from a checkpoint says the same, and is told by where its files lie), and reached through that
process's root: no port is opened inside, and the sandbox is not entered.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import os
import re
import socket
from collections.abc import Iterator
from pathlib import Path

from aiohttp import WSMsgType, web
from aiohttp.typedefs import Handler

from silva.envs.gyms.desktop.rfb import Watcher
from silva.errors import MissingError, UsageError
from silva.hosts import Hosts
from silva.tree import Record

NOVNC = (Path("/usr/share/novnc"), Path("/usr/share/webapps/novnc"))
_NAME = re.compile(r"silva:(\w+):([\w-]+)")
_FILES = re.compile(r"/([0-9a-f]{8})/top/")
_VNC = "tmp/.desktop/vnc"
_MOST_MESSAGE = 1 << 20
_PAGE = "vnc_lite.html"
_HEADERS = {"Cache-Control": "no-store", "Referrer-Policy": "no-referrer", "X-Content-Type-Options": "nosniff"}


class Seen(Record, frozen=True, kw_only=True):
    """A running desktop: its sandbox's id, its task, and its X server's process."""

    sandbox: str
    task: str
    pid: int


def desktops() -> tuple[Seen, ...]:
    """The desktops that run on this machine and that this user may look at."""
    return tuple(sorted(_found(), key=lambda each: each.pid))


def chosen(sandbox: str = "") -> Seen:
    """The desktop of that sandbox, or of one whose id begins so; the only one, when nothing is said.

    Raises:
        UsageError: there is none, or several.
    """
    there = desktops()
    matching = [each for each in there if each.sandbox.startswith(sandbox)]
    if len(matching) == 1:
        return matching[0]
    listed = ", ".join(f"{each.sandbox} ({each.task})" for each in there)
    if not there:
        raise UsageError("no desktop is running that you may look at")
    why = "several desktops are running" if not sandbox else f"no one desktop is {sandbox!r}"
    raise UsageError(f"{why}: name one of {listed}")


class View:
    """Serves one desktop to a browser.

    Attributes:
        app: the web application; every path of it begins with the token.
        control: whether keys and pointer reach the desktop.
    """

    def __init__(self, desktop: Seen, token: str, control: bool = False) -> None:
        """Raises MissingError: noVNC is not here."""
        pages = next((place for place in NOVNC if (place / _PAGE).is_file()), None)
        if pages is None:
            raise MissingError("the view needs noVNC: run apt-get install --no-install-recommends novnc")
        self.control = control
        self._desktop = desktop
        self._token = token
        self._hosts = Hosts("127.0.0.1")
        self.app = web.Application(middlewares=[self._guard])
        self.app.router.add_get("/{token}/", self._front)
        self.app.router.add_get("/{token}/socket", self._socket)
        self.app.router.add_get("/{token}/pages/{name:.+}", self._page)
        self._pages = pages.resolve()

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        token = request.path.lstrip("/").partition("/")[0]
        if not hmac.compare_digest(token.encode(), self._token.encode()):
            raise web.HTTPForbidden(text="the address is not whole: open the one that silva printed\n")
        host, origin = request.headers.get("Host", ""), request.headers.get("Origin", "")
        if not self._hosts.known(host.encode("latin-1", "replace")) or (origin and origin != f"http://{host}"):
            raise web.HTTPForbidden(text="only pages of this server may use it\n")
        answer = await handler(request)
        if not answer.prepared:
            answer.headers.update(_HEADERS)
        return answer

    async def _front(self, request: web.Request) -> web.StreamResponse:
        query = f"autoconnect=1&scale=true&path={self._token}/socket{'' if self.control else '&view_only=true'}"
        raise web.HTTPFound(f"/{self._token}/pages/{_PAGE}?{query}")

    async def _page(self, request: web.Request) -> web.StreamResponse:
        file = (self._pages / request.match_info["name"]).resolve()
        if not file.is_relative_to(self._pages) or not file.is_file():
            raise web.HTTPNotFound(text="there is no such page\n")
        return web.FileResponse(file)

    async def _socket(self, request: web.Request) -> web.StreamResponse:
        reader, writer = await self._reached()
        answer = web.WebSocketResponse(protocols=("binary",), max_msg_size=_MOST_MESSAGE)
        await answer.prepare(request)
        watcher = Watcher(typing=self.control)

        async def out() -> None:
            while data := await reader.read(1 << 16):
                await answer.send_bytes(data)

        sending = asyncio.ensure_future(out())
        try:
            async for message in answer:
                if message.type != WSMsgType.BINARY:
                    break
                writer.write(watcher.passed(message.data))
                await writer.drain()
        except (ValueError, ConnectionError):
            pass  # what it says is no RFB, or the desktop has ended: the connection ends
        finally:
            sending.cancel()
            with contextlib.suppress(asyncio.CancelledError, ConnectionError):
                await sending
            writer.close()
            await answer.close()
        return answer

    async def _reached(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        place = f"/proc/{self._desktop.pid}/root/{_VNC}"
        try:
            return await asyncio.open_unix_connection(place)
        except OSError as error:
            raise web.HTTPGone(text=f"the desktop has ended ({error.strerror})\n") from error


def listening(port: int = 0) -> socket.socket:
    """A socket on loopback. Raises UsageError: the port is taken."""
    try:
        return socket.create_server(("127.0.0.1", port))
    except OSError as error:
        raise UsageError(f"port {port} cannot be had: {error.strerror}; leave --port out for a free one") from error


def _found() -> Iterator[Seen]:
    for place in Path("/proc").iterdir():
        if not place.name.isdigit():
            continue
        try:
            words = (place / "cmdline").read_bytes().decode(errors="replace").split("\0")
            if not words[0].endswith("Xtigervnc") or "-desktop" not in words:
                continue
            named = _NAME.fullmatch(words[words.index("-desktop") + 1])
            if named and os.access(place / "root" / _VNC, os.R_OK | os.W_OK):
                found = _FILES.search((place / "mountinfo").read_text())
                yield Seen(sandbox=found[1] if found else named[1], task=named[2], pid=int(place.name))
        except (OSError, IndexError):
            continue  # it has ended, or is another user's

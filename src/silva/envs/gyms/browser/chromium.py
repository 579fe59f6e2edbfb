"""The one browser of a host process, and a context in it for every instance.

    Chromium.take(settings) ─▶ the browser of this process, started by the first who asks ─▶ tab(sites) ─▶ Tab
    release()               ─▶ ended by the last

Which Chromium: the option `executable`; else Playwright's own download; else the system's. Isolation `namespaces` is
the default and is described in `enclosure`; `chromium` is the browser's own sandbox alone, on the machine's network
stack, where a proxy with a password and a resolver without names are what keeps it from the network.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

from playwright.async_api import Browser, BrowserContext, Page, Playwright, ProxySettings, async_playwright

from silva.envs.gyms.browser.enclosure import Enclosure, check
from silva.envs.gyms.browser.website import USER, Proxy, Site
from silva.errors import MissingError, UsageError

PARALLEL = 8
"""Contexts one browser holds at once."""
ISOLATIONS = ("namespaces", "chromium")
_NAMES = ("chromium", "chromium-browser", "google-chrome")
# Debian's `chromium` is a script that reads settings of the machine; the program beside it is the browser itself.
_PROGRAMS = ("/usr/lib/chromium/chromium",)
_ARGUMENTS = (
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--disable-quic",
    "--disable-gpu",
    "--disable-lcd-text",
    "--font-render-hinting=none",
    "--force-color-profile=srgb",
)
_NOWHERE = ProxySettings(server="http://127.0.0.1:1")


@dataclass(frozen=True)
class Settings:
    """How the browser of this process is to run."""

    isolation: str = "namespaces"
    executable: str | None = None

    def check(self) -> None:
        """Find out whether a browser can be had so.

        Raises:
            UsageError: there is no such isolation, or no such executable.
            MissingError: Chromium or bubblewrap is not here, or may not run.
        """
        if self.isolation not in ISOLATIONS:
            raise UsageError(f"isolation {self.isolation!r} is not known; possible are {', '.join(ISOLATIONS)}")
        if self.executable is not None and not Path(self.executable).is_file():
            raise UsageError(f"option executable: there is no file {self.executable}")
        if self.isolation == "namespaces":
            check()
        elif os.geteuid() == 0:
            raise MissingError("Chromium's own sandbox refuses root: run as another user, or with isolation=namespaces")


class Tab:
    """An instance's context, the page it looks at, and the proxy that answers for its sites."""

    def __init__(self, context: BrowserContext, page: Page) -> None:
        self.context = context
        self.page = page
        self.said: list[str] = []
        context.on("page", self._opened)
        self._listen(page)

    def _opened(self, page: Page) -> None:
        self.page = page
        self._listen(page)

    def _listen(self, page: Page) -> None:
        page.on("dialog", self._dialog)
        page.on("close", self._closed)

    async def _dialog(self, dialog: Any) -> None:
        self.said.append(f"{dialog.type}: {dialog.message}")
        # A confirmation is what the click that led to it asked for.
        await dialog.accept()

    def _closed(self, page: Page) -> None:
        others = [other for other in self.context.pages if other is not page]
        if self.page is page and others:
            self.page = others[-1]


class _Running:
    """The browsers of one event loop."""

    def __init__(self) -> None:
        self.browsers: dict[Settings, Chromium] = {}
        self.changing = asyncio.Lock()


class Chromium:
    """The browser; `take` and `release` count who uses it."""

    _running: ClassVar[WeakKeyDictionary[asyncio.AbstractEventLoop, _Running]] = WeakKeyDictionary()

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._users = 0
        self._playwright: Playwright | None = None
        self._browser: Browser | None = None
        self._enclosure: Enclosure | None = None
        self._doors: list[socket.socket] = []
        self._free: list[Proxy] = []

    @classmethod
    async def take(cls, settings: Settings) -> Chromium:
        """The browser of this process, started if need be; one that died is started anew.

        Raises:
            UsageError, MissingError: it cannot be had as the settings say.
        """
        running = cls._here()
        async with running.changing:
            found = running.browsers.get(settings)
            if found is not None and not found.alive:
                del running.browsers[settings]
                await found._end()
                found = None
            if found is None:
                found = cls(settings)
                try:
                    await found._start()
                except BaseException:
                    await found._end()
                    raise
                running.browsers[settings] = found
            found._users += 1
            return found

    async def release(self) -> None:
        """Say that one user needs it no more; the last ends it."""
        running = self._here()
        async with running.changing:
            self._users -= 1
            if self._users == 0 and running.browsers.get(self.settings) is self:
                del running.browsers[self.settings]
                await self._end()

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return self._browser is not None and self._browser.is_connected()

    def proxy(self) -> Proxy:
        """A proxy for one instance, to be given back.

        Raises:
            UsageError: there are as many instances as one browser holds.
        """
        if not self._free:
            raise UsageError(f"one browser holds {PARALLEL} instances; use more hosts")
        return self._free.pop()

    def give_back(self, proxy: Proxy) -> None:
        """Take back an instance's proxy."""
        proxy.sites = {}
        self._free.append(proxy)

    async def tab(self, proxy: Proxy, sites: Mapping[str, Site], width: int, height: int) -> Tab:
        """A fresh context of `width` x `height` pixels for these sites, without cookies, at a clock that stands."""
        assert self._browser is not None
        proxy.sites = dict(sites)
        server = f"http://127.0.0.1:{proxy.port}"
        way = ProxySettings(server=server, bypass="<-loopback>")
        if proxy.password is not None:
            way |= ProxySettings(server=server, username=USER, password=proxy.password)
        context = await self._browser.new_context(
            proxy=way,
            viewport={"width": width, "height": height},
            locale="en-GB",
            timezone_id="UTC",
            accept_downloads=False,
            service_workers="block",
            reduced_motion="reduce",
        )
        return Tab(context, await context.new_page())

    async def _start(self) -> None:
        self.settings.check()
        self._playwright = playwright = await async_playwright().start()
        program = self._program()
        waiting = None
        guarded = self.settings.isolation != "namespaces"
        if not guarded:
            self._enclosure = Enclosure(program, PARALLEL)
            program = self._enclosure.script
            waiting = asyncio.ensure_future(self._enclosure.received())
        try:
            self._browser = await playwright.chromium.launch(
                executable_path=program,
                headless=True,
                chromium_sandbox=True,
                args=list(_ARGUMENTS),
                proxy=_NOWHERE,
                env={"PATH": os.defpath, "HOME": "/tmp", "LANG": "C.UTF-8", "TZ": "UTC"},
                handle_sigint=False,
                handle_sigterm=False,
                handle_sighup=False,
            )
            if waiting is None:
                self._doors = [socket.create_server(("127.0.0.1", 0)) for _ in range(PARALLEL)]
            else:
                self._doors = await waiting
        finally:
            if waiting is not None:
                waiting.cancel()
        if self._enclosure is not None:
            self._enclosure.close()  # at once: what is killed later leaves nothing behind
        self._free = [Proxy(door, guarded) for door in reversed(self._doors)]

    def _program(self) -> Path:
        assert self._playwright is not None
        if self.settings.executable is not None:
            return Path(self.settings.executable).resolve()
        downloaded = Path(self._playwright.chromium.executable_path)
        found = [downloaded, *map(Path, _PROGRAMS), *(Path(which) for name in _NAMES if (which := shutil.which(name)))]
        for program in found:
            if program.is_file():
                return program.resolve()
        raise MissingError(
            "no Chromium is here: install Debian's package (apt-get install --no-install-recommends chromium), or run: "
            "playwright install chromium, or name one by the option executable"
        )

    async def _end(self) -> None:
        for proxy in self._free:
            proxy.close()
        self._free = []
        if self._browser is not None:
            await self._browser.close()
        for door in self._doors:
            door.close()
        if self._playwright is not None:
            await self._playwright.stop()
        if self._enclosure is not None:
            self._enclosure.close()

    @classmethod
    def _here(cls) -> _Running:
        return cls._running.setdefault(asyncio.get_running_loop(), _Running())

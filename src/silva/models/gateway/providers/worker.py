"""One local model server: started on a free loopback port with a token of its own, watched, stopped.

start ─▶ (warden ─▶ command) ─ health path answers 200 ─▶ ready ─▶ … ─▶ stop, or it ends by itself
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import subprocess
from collections import deque
from threading import Thread

import aiohttp

from silva.models.child import GRACE, Process, free_port
from silva.models.gateway.config import ProcessBackends
from silva.models.gateway.routing.backend import Backend
from silva.models.gateway.routing.health import check

log = logging.getLogger("silva.gateway.process")

LAST_LINES = 20
LONGEST_LINE = 65536


class Failed(Exception):
    """A server did not come up, or ended; the message says why, without secrets."""


class Worker:
    """See the module; `backend` is how to reach it.

    Args:
        name: its backend's.
        chosen: how to start it.
    """

    def __init__(self, name: str, chosen: ProcessBackends) -> None:
        self.serves = self.leaving = self.stopping = False
        """How far its life is, for whoever leads it."""
        self._chosen = chosen
        self._port = port = free_port()
        self.backend = Backend(
            name=name,
            url=f"http://127.0.0.1:{port}/v1",
            kind=chosen.kind,
            model=chosen.model,
            token=secrets.token_urlsafe(24),
            health=chosen.health,
        )
        self._arguments = [argument.replace("{port}", str(port)) for argument in chosen.command]
        self._process: Process | None = None
        self._ended = asyncio.Event()
        self._lines: deque[str] = deque(maxlen=LAST_LINES)

    async def start(self, http: aiohttp.ClientSession) -> None:
        """Start the server and wait until it is well.

        Raises:
            Failed: it ended, or did not come up in time.
        """
        variables = {**os.environ, **self._chosen.variables, self._chosen.token_env: self.backend.token}
        self._process = Process(self._arguments, variables, stderr=subprocess.STDOUT)
        arguments = (self._process, asyncio.get_running_loop())
        Thread(target=self._read, args=arguments, name=f"silva-worker {self.backend.name}", daemon=True).start()
        pause = 0.05
        try:
            async with asyncio.timeout(self._chosen.start_seconds):
                while not (await check(http, self.backend, 2.0)).healthy:
                    if self._ended.is_set():
                        raise Failed(self._last_words())
                    await asyncio.sleep(pause)
                    pause = min(pause * 1.5, 1.0)
        except TimeoutError:
            told = f"{self.backend.name} was not well within {self._chosen.start_seconds:g} s"
            raise Failed(told + self._quoted()) from None
        if await asyncio.to_thread(self._process.forestalled, self._port):
            raise Failed(f"{self.backend.name}: another process listens on its port {self._port}" + self._quoted())

    async def ended(self) -> str:
        """Wait until the server has ended by itself; says how, and the last line it wrote."""
        await self._ended.wait()
        return self._last_words()

    async def stop(self) -> None:
        """Stop the server and all it started; returns when they are gone."""
        if self._process is None:
            return
        self._process.ask_to_stop()
        with contextlib.suppress(TimeoutError):  # many may stop at once: no thread of the loop's pool waits for each
            async with asyncio.timeout(2 * GRACE):
                await self._ended.wait()
        await self._process.stop()

    def _last_words(self) -> str:
        assert self._process is not None
        return f"{self.backend.name} ended with exit code {self._process.popen.returncode}" + self._quoted()

    def _quoted(self) -> str:
        return f"; its last words: {self._lines[-1][:200]!r}" if self._lines else ""

    def _read(self, process: Process, loop: asyncio.AbstractEventLoop) -> None:
        """Read what it says to its end, in a thread."""
        assert process.popen.stdout is not None
        with process.popen.stdout as said:
            while line := said.readline(LONGEST_LINE):
                if shown := line.decode("utf-8", "replace").replace(self.backend.token, "***").strip():
                    self._lines.append(shown)
                    log.debug("%s: %s", self.backend.name, shown)
        process.popen.wait()
        with contextlib.suppress(RuntimeError):  # the loop has ended first
            loop.call_soon_threadsafe(self._ended.set)

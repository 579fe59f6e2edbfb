"""One local model server: started on a free loopback port with a token of its own, watched, stopped.

start ─▶ (warden ─▶ command) ─ health path answers 200 ─▶ ready ─▶ … ─▶ stop, or it ends by itself
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
import sys
from collections import deque
from collections.abc import Sequence
from pathlib import Path

import aiohttp

from silva.models.gateway.config import ProcessBackends
from silva.models.gateway.providers import warden
from silva.models.gateway.routing.backend import Backend
from silva.models.gateway.routing.health import check

log = logging.getLogger("silva.gateway.process")

LAST_LINES = 20
LONGEST_LINE = 65536
GRACE = 10.0
"""Seconds between asking a server to stop and making it."""


class Failed(Exception):
    """A server did not come up; the message says why, without secrets."""


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
        port = free_port()
        self.backend = Backend(
            name=name,
            url=f"http://127.0.0.1:{port}/v1",
            kind=chosen.kind,
            model=chosen.model,
            token=secrets.token_urlsafe(24),
            health=chosen.health,
        )
        self._arguments = [argument.replace("{port}", str(port)) for argument in chosen.command]
        self._process: asyncio.subprocess.Process | None = None
        self._reader: asyncio.Task[None] | None = None
        self._lines: deque[str] = deque(maxlen=LAST_LINES)

    async def start(self, http: aiohttp.ClientSession) -> None:
        """Start the server and wait until it is well.

        Raises:
            Failed: it ended, or did not come up in time.
        """
        environment = {**os.environ, **self._chosen.variables, self._chosen.token_env: self.backend.token}
        try:
            async with asyncio.timeout(self._chosen.start_seconds):
                self._process = await asyncio.create_subprocess_exec(
                    *_warden(self._arguments),
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=asyncio.subprocess.STDOUT,
                    env=environment,
                    start_new_session=True,  # Ctrl-C is the gateway's, whose requests must first end
                )
                self._reader = asyncio.create_task(self._read(), name=f"silva-worker {self.backend.name}")
                pause = 0.05
                while not (await check(http, self.backend, 2.0)).healthy:
                    if self._process.returncode is not None:
                        raise Failed(await self.last_words())
                    await asyncio.sleep(pause)
                    pause = min(pause * 1.5, 1.0)
        except TimeoutError:
            told = f"{self.backend.name} was not well within {self._chosen.start_seconds:g} s"
            raise Failed(told + self._quoted()) from None

    async def ended(self) -> None:
        """Wait until the server has ended."""
        assert self._process is not None
        await self._process.wait()

    async def last_words(self) -> str:
        """Once it ended: how, and the last line it wrote."""
        assert self._process is not None
        if self._reader is not None:
            await asyncio.wait([self._reader], timeout=1.0)
        return f"{self.backend.name} ended with exit code {self._process.returncode}" + self._quoted()

    async def stop(self) -> None:
        """Stop the server and all it started; returns when they are gone."""
        if self._process is not None:
            if self._process.stdin is not None:
                self._process.stdin.close()
            try:
                async with asyncio.timeout(GRACE + 10.0):
                    await self._process.wait()
            except TimeoutError:
                log.warning("the warden of %s does not end: killing it", self.backend.name)
                self._process.kill()
                await self._process.wait()
        if self._reader is not None:
            self._reader.cancel()
            await asyncio.gather(self._reader, return_exceptions=True)

    def _quoted(self) -> str:
        return f"; its last words: {self._lines[-1][:200]!r}" if self._lines else ""

    async def _read(self) -> None:
        assert self._process is not None and self._process.stdout is not None
        rest = b""
        while chunk := await self._process.stdout.read(65536):  # no readline: a line may be longer than its buffer
            *lines, rest = (rest + chunk).split(b"\n")
            if len(rest) > LONGEST_LINE:
                lines, rest = [*lines, rest], b""
            for line in lines:
                self._note(line)
        self._note(rest)

    def _note(self, line: bytes) -> None:
        if shown := line.decode("utf-8", "replace").replace(self.backend.token, "***").strip():
            self._lines.append(shown)
            log.debug("%s: %s", self.backend.name, shown)


def free_port() -> int:
    """A loopback port nobody listens on. Somebody else may take it before it is used: then the start fails and is tried
    again like any other crash."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def _warden(arguments: Sequence[str]) -> list[str]:
    script = str(Path(warden.__file__).resolve())
    return [sys.executable, "-I", "-S", script, str(GRACE), *arguments]

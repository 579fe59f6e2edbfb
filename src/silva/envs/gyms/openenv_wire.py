"""Talking to an OpenEnv server: one websocket for a session, a little HTTP for schema and tasks; and starting one.

Session.open(url) ─▶ /ws ─▶ {"type": "reset" | "step" | "mcp", "data": …} ─▶ {"type": "observation", "data": …}
LocalServer.start(place) ─▶ uvicorn on a free loopback port, in a process that ends with this one
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import json
import os
import signal
import socket
import sys
from pathlib import Path
from typing import Any

import httpx
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake

from silva.errors import UnreachableError, UsageError
from silva.tree import Json

_LARGEST = 64 << 20
_START = 60.0  # seconds a server gets to answer after it was started
_PR_SET_PDEATHSIG = 1


class ServerError(RuntimeError):
    """The server answered with an error; `code` is OpenEnv's name for it."""

    def __init__(self, code: str, message: str, details: Any) -> None:
        super().__init__(f"the OpenEnv server said {code}: {message}")
        self.code = code
        self.details = details


class Session:
    """One websocket, which the server gives an environment of its own."""

    def __init__(self, socket_: ClientConnection) -> None:
        self._socket = socket_

    @classmethod
    async def open(cls, url: str) -> Session:
        """Connect to the server at `url` (http or https).

        Raises:
            UnreachableError: nothing answers there.
        """
        address = "ws" + url.rstrip("/").removeprefix("http") + "/ws"
        try:
            return cls(await connect(address, max_size=_LARGEST, proxy=None))
        except (OSError, InvalidHandshake, TimeoutError) as error:
            raise UnreachableError(f"no OpenEnv server answers at {url}: {type(error).__name__}") from error

    async def ask(self, kind: str, data: Json) -> Json:
        """Send one message and wait for its answer.

        Raises:
            ServerError: the server refused it.
            UnreachableError: the server hung up.
        """
        with contextlib.suppress(ConnectionClosed):  # a refused session is told why before it is closed
            await self._socket.send(json.dumps({"type": kind, "data": data}))
        try:
            answer = json.loads(await self._socket.recv())
        except ConnectionClosed as error:
            raise UnreachableError("the OpenEnv server closed the session") from error
        told: Json = answer.get("data") or {}
        if answer.get("type") == "error":
            raise ServerError(str(told.get("code")), str(told.get("message")), told.get("errors"))
        return told

    async def close(self) -> None:
        """Hang up."""
        await self._socket.close()


class LocalServer:
    """An environment server of this machine: a module's FastAPI app under uvicorn, on loopback."""

    def __init__(self, process: asyncio.subprocess.Process, url: str) -> None:
        self._process = process
        self._words = ""
        self._listening = asyncio.get_running_loop().create_task(self._listen())
        self.url = url

    @classmethod
    async def start(cls, place: str, path: Path | None) -> LocalServer:
        """Start `module@app` or `file.py@app` (default: app) and wait until it answers.

        Raises:
            UsageError: it ended before it answered, or did not answer in time.
        """
        module, _, attribute = place.partition("@")
        folder, module = (Path(), module) if path is None else _module(path)
        listening = socket.create_server(("127.0.0.1", 0))
        command = [sys.executable, "-m", "uvicorn", "--fd", str(listening.fileno()), "--log-level", "warning"]
        command += ["--app-dir", str(folder), f"{module}:{attribute or 'app'}"]
        parent = os.getpid()
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            pass_fds=(listening.fileno(),),
            preexec_fn=lambda: _die_with(parent),
        )
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        listening.close()
        server = cls(process, url)
        try:
            async with asyncio.timeout(_START):
                await server._answers(place)
        except TimeoutError as error:
            await server.close()
            raise UsageError(f"the server {place} did not answer within {_START:g} s") from error
        except BaseException:
            await server.close()
            raise
        return server

    async def _answers(self, place: str) -> None:
        ended = asyncio.ensure_future(self._process.wait())
        try:
            async with httpx.AsyncClient(trust_env=False) as client:
                while True:
                    if ended.done():
                        await self._listening
                        raise UsageError(f"the server {place} ended before it answered; last words: {self._words}")
                    with contextlib.suppress(httpx.TransportError):
                        if (await client.get(f"{self.url}/health")).status_code == httpx.codes.OK:
                            return
                    await asyncio.sleep(0.05)
        finally:
            ended.cancel()

    async def close(self) -> None:
        """End the server's process."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()
        await self._listening

    async def _listen(self) -> None:
        """Pass on what the server says, and keep its last line."""
        assert self._process.stderr is not None
        while line := await self._process.stderr.readline():
            sys.stderr.buffer.write(line)
            sys.stderr.flush()
            self._words = line.decode(errors="replace").strip()[:300] or self._words


async def ask_http(url: str, path: str, body: Json | None = None) -> Any:
    """GET, or POST with a body; None where the server does not have that (404, 405, 501).

    Raises:
        UnreachableError: nothing answers, or with an error.
    """
    try:
        async with httpx.AsyncClient(timeout=30.0, trust_env=False) as client:
            where = f"{url.rstrip('/')}{path}"
            reply = await (client.get(where) if body is None else client.post(where, json=body))
    except httpx.TransportError as error:
        raise UnreachableError(f"no OpenEnv server answers at {url}: {type(error).__name__}") from error
    if reply.status_code in (404, 405, 501):
        return None
    if reply.status_code != httpx.codes.OK:
        raise UnreachableError(f"the OpenEnv server at {url} answered {path} with {reply.status_code}")
    return reply.json()


def _module(path: Path) -> tuple[Path, str]:
    """The folder to import a file from, and its name there: OpenEnv's servers import what lies beside them."""
    folder, name = path.resolve().parent, path.stem
    while (folder / "__init__.py").is_file():
        folder, name = folder.parent, f"{folder.name}.{name}"
    return folder, name


def _die_with(parent: int) -> None:
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(0)

"""An MCP server that is a program, in a sandbox: its messages are lines, and go over a terminal that changes nothing.

    server (stdin, stdout) ─ a raw terminal of the sandbox ─▶ lines ─▶ the client's streams
       └ stderr ─▶ a file inside, whose last line is told where the server ends

What it says is bounded: a line, and what comes between two requests.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from silva.envs.gyms.mcp_tasks import Server
from silva.errors import SilvaError
from silva.sandbox.limits import MIB, Limits
from silva.sandbox.protocol import Backend, Spec

LONGEST = 4 * MIB
"""Bytes of one message."""

MOST = 32 * MIB
"""Bytes that a server may say between two requests."""

_READY = b"silva: raw\n"
_SAID = "/tmp/silva-said"
_START = f'stty raw -echo; printf "silva: raw\\n"; exec "$@" 2>{_SAID}'


class Wire:
    """One server in a sandbox, as a transport of the client's. `why` says what broke it."""

    def __init__(self, backend: Backend, server: Server, folder: Path) -> None:
        self._backend, self._server, self._folder = backend, server, folder
        self._since_asked = 0
        self.why = ""

    @asynccontextmanager
    async def streams(self) -> AsyncIterator[tuple[Any, Any]]:
        """Start the server; the streams on which the client reads and writes. It ends with the context."""
        import anyio
        from mcp.shared.message import SessionMessage

        words, mounts = _command(self._server)
        spec = Spec(
            limits=Limits(memory=1024 * MIB, cpus=2.0),
            files=self._folder,
            mounts=mounts,
            network=self._server.network,
            variables={"PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1", **self._server.variables},
        )
        to_client, read = anyio.create_memory_object_stream[SessionMessage | Exception](16)
        write, from_client = anyio.create_memory_object_stream[SessionMessage](16)
        async with await self._backend.create(spec) as sandbox:
            session = await sandbox.session(["sh", "-c", _START, "sh", *words])
            tasks = [
                asyncio.create_task(self._listen(sandbox, session, to_client)),
                asyncio.create_task(self._tell(session, from_client)),
            ]
            try:
                yield read, write
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                for stream in (to_client, read, write, from_client):
                    await stream.aclose()
                with contextlib.suppress(SilvaError):
                    await session.kill()

    async def _listen(self, sandbox: Any, session: Any, to_client: Any) -> None:
        import mcp_types as types
        from mcp.shared.message import SessionMessage

        held, since, begun = bytearray(), 0, False
        async with to_client:
            while True:
                data, reached = await session.more(since)
                if not data:
                    self.why = self.why or f"it ended{await _last_words(sandbox)}"
                    return
                lost = reached - since - len(data)
                since = reached
                held += data
                self._since_asked += len(data)
                if not begun:
                    _, mark, rest = held.partition(_READY)
                    begun, held = bool(mark), rest if mark else held
                if lost or len(held) > LONGEST or self._since_asked > MOST:
                    self.why = f"it floods: over {MOST // MIB} MiB unasked, or {LONGEST // MIB} in one message"
                    return
                if not begun or b"\n" not in data:
                    continue
                *lines, held = held.split(b"\n")
                for line in lines:
                    try:
                        message = types.jsonrpc_message_adapter.validate_json(bytes(line), by_name=False)
                    except ValueError:
                        continue  # what a server prints beside its messages
                    await to_client.send(SessionMessage(message))

    async def _tell(self, session: Any, from_client: Any) -> None:
        while True:  # behind the mark nothing is echoed
            data, _ = session.read(0)
            if _READY in data or not session.alive:
                break
            await session.more(len(data))
        async for sent in from_client:
            text = sent.message.model_dump_json(by_alias=True, exclude_unset=True)
            self._since_asked = 0
            try:
                await session.send(text.encode() + b"\n")
            except SilvaError:
                return  # it has ended, which the listener tells


def _command(server: Server) -> tuple[list[str], dict[Path, str]]:
    """The words that start it, and the folders it needs for that."""
    words = list(server.command)
    places = [Path(place).expanduser().absolute() for place in server.mounts]
    if words[0] in ("python", "python3"):
        words[0] = sys.executable
        places += [Path(sys.prefix), Path(sys.base_prefix)]
    return words, {place: str(place) for place in places}


async def _last_words(sandbox: Any) -> str:
    try:
        said = (await sandbox.get(_SAID, most=64 << 10)).decode(errors="replace").strip()
    except SilvaError:
        return ""
    return f"; its last words: {said.splitlines()[-1][:200]}" if said else ""

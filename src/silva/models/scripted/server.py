"""Running a script: in a thread of this process (`ScriptedServer`) or in a process of its own (`ScriptedProcess`)."""

from __future__ import annotations

import asyncio
import gc
import os
import tempfile
from pathlib import Path
from types import TracebackType

import msgspec

from silva.collecting import collect_seldom
from silva.models.child import TOKEN_VARIABLE, Child, announce, run_child, start_child
from silva.models.scripted.app import ScriptedApp
from silva.models.scripted.script import Script, load_script
from silva.models.serving import ServerThread, serve_forever
from silva.models.serving.server import bind


class ScriptedServer(ServerThread):
    """A scripted model in a thread: `async with ScriptedServer(script) as server: server.url`.

    Raises:
        UsageError: the script cannot be used, or the address cannot be had.
    """

    def __init__(self, script: Script, host: str = "127.0.0.1", port: int = 0, token: str | None = None) -> None:
        self.app = ScriptedApp(script, token)
        super().__init__(self.app, host, port, token)

    @property
    def requests(self) -> int:
        """How many chat completions it was asked for."""
        return self.app.requests


class ScriptedProcess:
    """A scripted model in a child process, for when the caller's core must not pay for it.

    `async with ScriptedProcess(script_or_path) as server`: `server.url`, `server.token`. It ends with its parent.
    """

    def __init__(self, script: Script | str | Path) -> None:
        self._script = script
        self._child: Child | None = None

    @property
    def url(self) -> str:
        """The base url."""
        return self._running().url

    @property
    def token(self) -> str:
        """The bearer token it demands."""
        return self._running().token

    def _running(self) -> Child:
        if self._child is None:
            raise RuntimeError("the scripted process has not been started")
        return self._child

    def start(self) -> ScriptedProcess:
        """Start it, blocking until it listens.

        Raises:
            UsageError: the script cannot be used.
        """
        if not isinstance(self._script, Script):
            self._child = start_child("silva.models.scripted", [str(self._script)], "the scripted server")
            return self
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "script.json"
            script = msgspec.structs.replace(self._script, folder=str(Path(self._script.folder).resolve()))
            path.write_bytes(msgspec.json.encode(script))
            self._child = start_child("silva.models.scripted", [str(path)], "the scripted server")
        return self

    def stop(self) -> None:
        """Stop it."""
        if self._child is not None:
            self._child.stop_now()
            self._child = None

    async def __aenter__(self) -> ScriptedProcess:
        return await asyncio.to_thread(self.start)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.stop)


def main(arguments: list[str]) -> None:
    """Entry of the child process: serve the script at the given path on a free loopback port."""

    def serve() -> None:
        app = ScriptedApp(load_script(arguments[0]), os.environ.pop(TOKEN_VARIABLE))
        # Requests are trees without cycles, and pauses of the collector would show as latency nobody asked for.
        gc.freeze()
        collect_seldom()
        serve_forever(app, bind("127.0.0.1", 0), announce)

    run_child(serve)

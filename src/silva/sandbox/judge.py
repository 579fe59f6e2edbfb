"""A judge in a sandbox: its tests and its verdict out of reach of what it judges.

    Judge.begin(backend, spec, at=checkpoint) ─▶ run(test.sh) ─▶ Result, and what it wrote to /logs, here
                                                    └ what the judged wrote runs in the second room (see `judging`)

/tests and /logs are folders of this machine, mounted there: the one to be read, the other to be written by the judge.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any, Self

import msgspec

from silva.errors import MissingError, SilvaError
from silva.sandbox.forkserver.victims import processes
from silva.sandbox.judging import NAME, Broker, prepared, show
from silva.sandbox.namespace import NamespaceSandbox
from silva.sandbox.namespaces import Namespaces
from silva.sandbox.protocol import WORKSPACE, Spec
from silva.sandbox.result import Result
from silva.sandbox.spawner import Child

TESTS, LOGS, OURS, SHOWN = "/tests", "/logs", "/run/judge", "/run/shown"
PLACES = (WORKSPACE, "/home/agent", "/tmp", "/var/tmp")
_OWN_VARIABLES = {"PYTHONNOUSERSITE": "1", "PYTHONSAFEPATH": "1", "PYTHONDONTWRITEBYTECODE": "1"}
_READY_SECONDS = 30.0
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Judge:
    """One judge. Made by `Judge.begin`; use it as `async with`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.tests = folder / "tests"
        self.logs = folder / "logs"
        self.tools = folder / "ours" / "bin"
        """Commands that the judge finds before all others."""
        self._shown = folder / "shown"
        self.sandbox: NamespaceSandbox
        self._room: Child | None = None
        self._first = 0
        self._broker: Broker | None = None

    @classmethod
    async def begin(
        cls, backend: Namespaces, spec: Spec, *, at: str = "", instead: NamespaceSandbox | None = None, imports: bool
    ) -> Self:
        """A judge of what a checkpoint holds.

        Args:
            backend: where.
            spec: what the sandbox is to be.
            at: the checkpoint; what `spec` says where there is none.
            instead: a sandbox that ends as soon as the judge has its files: where they cannot be kept, they are judged
                as they stand.
            imports: whether the judge's Pythons may import what is judged; it can then say what it likes.

        Raises:
            StoreError: the checkpoint is gone or damaged.
            MissingError: there can be no judge here.
        """
        judge = cls(Path(tempfile.mkdtemp(prefix="silva-judge-")))
        try:
            judge._folder.chmod(0o711)
            for name in ("tests", "logs", "shown", "ours"):
                (judge._folder / name).mkdir(mode=0o755)
            (judge.logs / "verifier").mkdir()
            places = () if imports else PLACES
            prepared(judge._folder / "ours", TESTS, LOGS, places)
            mounts = {judge.tests: TESTS, judge._folder / "ours": OURS, judge._shown: SHOWN}
            given = msgspec.structs.replace(
                spec,
                mounts={**spec.mounts, **mounts},
                writable={**spec.writable, judge.logs: LOGS},
                processes=False,
            )
            if instead is not None:
                judge.sandbox = instead
                await instead.become(given)
            else:
                judge.sandbox = await backend.create(given, at=at)
            await judge._second_room()
        except BaseException:
            await judge.end()
            raise
        return judge

    async def run(
        self, words: list[str], *, seconds: float, folder: str = "", variables: dict[str, str] | None = None
    ) -> Result:
        """Run the judge's program to its end; its own variables, and a home of its own."""
        (self.logs / ".home").mkdir(exist_ok=True)
        user = self.sandbox.outside_user
        if user is not None:
            os.chown(self.logs / ".home", user, user)
        lent = self.sandbox.spec.variables
        known = {**_OWN_VARIABLES, "HOME": f"{LOGS}/.home", **(variables or {})}
        known["PYTHONPATH"] = ":".join(filter(None, (OURS, TESTS, lent.get("PYTHONPATH", ""))))
        known["PATH"] = f"{OURS}/bin:{lent.get('PATH', _PATH)}"
        runner = ["/usr/bin/python3", "-I", "-S", f"{OURS}/run.py"]
        judge = {"own": [TESTS, LOGS, OURS], "places": list(PLACES), "runner": runner}
        return await self.sandbox.judged(words, seconds, folder, known, judge)

    @property
    def imported(self) -> str:
        """What is judged that the judge's own Python would have run; "" where it never tried."""
        note = self.logs / ".imported"
        try:
            return note.read_text(errors="replace").partition("\n")[0] if note.is_file() else ""
        except OSError:
            return ""

    async def end(self) -> None:
        """End it, and remove what it had."""
        if self._broker is not None:
            await self._broker.close()
        if hasattr(self, "sandbox"):
            await self.sandbox.destroy()
        await asyncio.to_thread(shutil.rmtree, self._folder, True)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.end()

    async def _second_room(self) -> None:
        reading, writing = os.pipe()
        try:
            self._room = await self.sandbox.veil([[SHOWN, TESTS]], [LOGS, OURS], writing)
        finally:
            os.close(writing)
        said = await asyncio.wait_for(asyncio.to_thread(_heard, reading), _READY_SECONDS)
        if said != b"ready":
            raise MissingError(
                f"what is judged cannot be kept from its judge here: {said.decode(errors='replace')[1:]}"
            )
        table = await asyncio.to_thread(processes, "/proc")
        self._first = next((pid for pid, row in table.items() if row[0] == self._room.pid), 0)
        self._broker = Broker.open(await self.sandbox.listen_at(NAME), self._start, self._stop)

    async def _start(self, asked: dict[str, Any], fds: list[int]) -> Child:
        assert self._room is not None
        await asyncio.to_thread(show, asked, self.tests, TESTS, self._shown)
        path, *rest = (str(word) for word in asked["words"])
        variables = {str(name): str(value) for name, value in asked["variables"].items()}
        for name in (*_OWN_VARIABLES, "PYTHONPATH"):
            variables.pop(name, None)
        variables |= {"HOME": "/home/agent", "PATH": _PATH, **self.sandbox.spec.variables}
        words = ["/bin/sh", "-c", 'exec "$0" "$@"', path, *rest[1:]]
        room = {"sandbox": self._room.number, "first": self._first}
        return await self.sandbox.start_in(room, words, str(asked["folder"]), variables, fds)

    async def _stop(self, child: Child) -> None:
        assert self._room is not None
        with contextlib.suppress(SilvaError):
            await self.sandbox.stop_in({"sandbox": self._room.number, "first": self._first}, child)


def _heard(fd: int) -> bytes:
    """What is said until it is ready or its end; closes the descriptor."""
    said = b""
    try:
        while len(said) < 200 and said != b"ready" and (part := os.read(fd, 200)):
            said += part
    finally:
        os.close(fd)
    return said

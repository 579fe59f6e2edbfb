"""A sandbox whose programs the fork server starts: what the namespaces and the process backends share.

exec: pipes ─▶ fork server ─▶ program; Capture reads, Watch looks on, whichever comes first ends it:
      its own end · too long · too much printed · memory or disk gone · the sandbox destroyed
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import time
from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from silva.errors import UsageError
from silva.sandbox import archive, kept
from silva.sandbox.output import Capture, Feed
from silva.sandbox.protocol import WORKSPACE, Sandbox, Spec
from silva.sandbox.result import Killed, Result
from silva.sandbox.session import Session
from silva.sandbox.spawner import Child, Ended, SandboxGone, Spawner

_GRACE = 0.05
"""Seconds that output may still come after a command's end, where something in the background holds it open."""
_BOMB = 50
"""Refused processes from which a command counts as one that starts them without end."""
_ENDLESS = 1 << 62
_SHELL = ("sh", "-c", 'if command -v bash >/dev/null; then exec bash -c "$0"; else exec sh -c "$0"; fi')
_TERMINAL_SHELL = "if command -v bash >/dev/null; then exec bash -i; else exec sh -i; fi"


class HeldSandbox(Sandbox):
    """What exec, session, put and get have in common."""

    def __init__(self, id: str, spec: Spec, spawner: Spawner) -> None:
        self.id = id
        self.spec = spec
        self._spawner = spawner
        self._running: dict[Child, asyncio.Future[tuple[Killed, str]]] = {}
        self._sessions: dict[str, Session] = {}
        self._opened = 0
        self.touched = 0.0
        """When something was last started in it, by `time.monotonic`."""
        self._gone = ""
        self._keeps_sessions = False
        """Whether a session's program is to be a child of process 1."""
        self.interrupted = ""
        """Why everything in it was ended last; "" where it never was."""

    @abstractmethod
    def _entry(self, child: str) -> dict[str, Any]:
        """How a program gets in: the fork server's words for it. Raises SandboxGone."""

    @abstractmethod
    async def _end_tree(self, child: Child) -> None:
        """Kill a command with everything it started."""

    @abstractmethod
    def _place(self, path: str) -> str:
        """A path as the sandbox's programs must name it."""

    def _began(self, child: Child, message: dict[str, Any]) -> None:
        """A program was started by this message."""

    def _counters(self) -> tuple[int, int]:
        """How often so far the kernel has killed for lack of memory, and refused a process."""
        return 0, 0

    async def _met_a_limit(self, child: Child, before: tuple[int, int]) -> tuple[Killed | None, str] | None:
        """Which limit of the kernel's a command that has ended ran into, if any; None for one that coped with it."""
        killed, refused = (now - then for now, then in zip(self._counters(), before, strict=True))
        if refused > _BOMB:
            await self._end_tree(child)
            return (
                Killed.PROCESSES,
                f"killed: it kept starting more than the sandbox's {self.limits.processes} processes",
            )
        if killed and child.ended.result().code == 0:
            return None, f"some of it was killed: more than the sandbox's {self.limits.memory:,} bytes of memory"
        if killed:
            return Killed.MEMORY, f"killed: the sandbox used more than its {self.limits.memory:,} bytes of memory"
        return None

    @property
    def sessions(self) -> dict[str, Session]:
        """The sessions opened so far, by id."""
        return dict(self._sessions)

    @property
    def busy(self) -> bool:
        """Whether a command or a session is running."""
        return bool(self._running) or any(session.alive for session in self._sessions.values())

    def interrupt_all(self, why: Killed, reason: str) -> None:
        """Have every running command end as killed for this reason."""
        self.interrupted = reason
        for verdict in self._running.values():
            if not verdict.done():
                verdict.set_result((why, reason))

    async def exec(
        self,
        command: str | Sequence[str],
        *,
        stdin: bytes = b"",
        seconds: float | None = None,
        folder: str = "",
        variables: dict[str, str] | None = None,
    ) -> Result:
        """See `Sandbox.exec`."""
        return await self._run(_words(command), stdin, seconds, folder, variables or {})

    async def stream(
        self,
        command: str | Sequence[str],
        *,
        stdin: IO[bytes],
        out: IO[bytes],
        errors: IO[bytes],
        seconds: float | None = None,
        folder: str = "",
        variables: dict[str, str] | None = None,
    ) -> Result:
        """As `exec`, with what it reads and prints passed on at once: nothing is kept, and no output is too long.

        Args:
            command: as of `exec`.
            stdin: a pipe's reading end. No file of this machine: a program can open again what it has open.
            out: what its output is written to.
            errors: what its standard error is written to.
            seconds: as of `exec`.
            folder: as of `exec`.
            variables: as of `exec`.
        """
        words = _words(command)
        return await self._run(
            words, stdin, seconds, folder, variables or {}, flood=_ENDLESS, into=out, into_errors=errors
        )

    async def session(
        self,
        command: str | Sequence[str] = "",
        *,
        rows: int = 40,
        columns: int = 120,
        folder: str = "",
        variables: dict[str, str] | None = None,
    ) -> Session:
        """See `Sandbox.session`."""
        words = _words(command) if command else ["sh", "-c", _TERMINAL_SHELL]
        own, other = socket.socketpair()
        with own:
            with other:
                message = self._message(
                    [*(kept.WORDS if self._keeps_sessions else ()), *words],
                    folder,
                    {"TERM": "xterm-256color", **(variables or {})},
                    (rows, columns),
                )
                child = await self._spawner.enter(message, [other.fileno()])
                self._began(child, message)
            own.setblocking(False)
            fd, *others = await self._terminal(own, child)
        if others:
            reading, pidfd = others
            child = kept.Kept(pidfd, reading)
        self._opened += 1
        self.touched = time.monotonic()
        session = Session(f"s{self._opened}", fd, child, self._spawner, self._end_tree)
        self._sessions[session.id] = session
        return session

    async def put(self, source: Path | bytes, target: str) -> None:
        """See `Sandbox.put`."""
        path = archive.inside(target)
        stream, folder = await asyncio.to_thread(archive.pack, source, path)
        with stream:
            done = await self._run(["sh", "-c", archive.UNPACK, "put", self._place(str(folder))], stream, None, "/", {})
        if not done.ok:
            raise UsageError(f"{target} cannot be written in the sandbox: {_complaint(done)}")

    async def get(self, source: str, *, most: int = 64 << 20) -> bytes:
        """See `Sandbox.get`."""
        path = self._place(str(archive.inside(source)))
        done = await self._run(["sh", "-c", archive.READ, "get", path], b"", None, "/", {}, keep=2 * most, flood=most)
        if done.killed is Killed.OUTPUT:
            raise UsageError(f"{source} in the sandbox is larger than {most:,} bytes")
        if not done.ok:
            raise UsageError(f"{source} cannot be read in the sandbox: {_complaint(done)}")
        return done.stdout

    async def get_folder(self, source: str, target: Path, *, most: int = 1 << 30) -> archive.Fetched:
        """See `Sandbox.get_folder`."""
        import tempfile

        await asyncio.to_thread(archive.absent, target)
        path = self._place(str(archive.inside(source)))
        with tempfile.TemporaryFile() as stream:
            command = ["sh", "-c", archive.PACK, "get", path]
            # Room for the names of many small files too.
            done = await self._run(command, b"", None, "/", {}, into=stream, flood=most + (most >> 1) + (64 << 20))
            if not done.ok:
                raise UsageError(f"{source} cannot be copied out of the sandbox: {_complaint(done)}")
            stream.seek(0)
            return await asyncio.to_thread(archive.unpack, stream, target, most)

    def _message(
        self, words: list[str], folder: str, variables: dict[str, str], size: tuple[int, int] | None = None
    ) -> dict[str, Any]:
        """What the fork server is told to start; with a `size`, on a terminal of so many rows and columns."""
        if not words or any("\0" in word for word in words):
            raise UsageError("a command needs a program, and no null byte")
        place = self._place(str(archive.inside(folder or WORKSPACE)))
        known = self._variables()
        rows, columns = size or (0, 0)
        terminal = {"rows": rows, "columns": columns, "kept": self._keeps_sessions} if size else {}
        return {
            **self._entry("exec"),
            "terminal": size is not None,
            **terminal,
            "folder": place,
            "arguments": words,
            "variables": {**known, **self.spec.variables, **variables},
        }

    def _variables(self) -> dict[str, str]:
        return {
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": self._place("/home/agent"),
            "TMPDIR": self._place("/tmp"),
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            "USER": "agent",
        }

    async def _run(
        self,
        words: list[str],
        stdin: bytes | IO[bytes],
        seconds: float | None,
        folder: str,
        variables: dict[str, str],
        *,
        keep: int = 0,
        flood: int = 0,
        into: IO[bytes] | None = None,
        into_errors: IO[bytes] | None = None,
        judge: dict[str, Any] | None = None,
    ) -> Result:
        limits = self.limits
        allowed = limits.wall if seconds is None else seconds
        flooded = asyncio.Event()
        self.touched = time.monotonic()
        message = self._message(words, folder, variables)
        if judge is not None:
            message["judge"] = judge
        began, before = time.perf_counter(), self._counters()
        with contextlib.ExitStack() as opened:
            ends, theirs = [], []
            for _ in range(2):
                reading, writing = os.pipe()
                ends.append(reading)
                theirs.append(opened.enter_context(_Descriptor(writing)))
            feeding = -1
            if not isinstance(stdin, bytes):
                source = stdin.fileno()
            elif stdin:
                taking, feeding = os.pipe()
                source = opened.enter_context(_Descriptor(taking)).fd
            else:
                source = opened.enter_context(_Descriptor(os.open(os.devnull, os.O_RDONLY))).fd
            try:
                child = await self._spawner.enter(message, [source, *(each.fd for each in theirs)])
                self._began(child, message)
            except BaseException:
                for fd in (*ends, *([feeding] if feeding >= 0 else [])):
                    os.close(fd)
                raise
        captures = [
            Capture(ends[0], keep or limits.output, flood or limits.flood, flooded, into),
            Capture(ends[1], limits.output, flood if into_errors else limits.flood, flooded, into_errors),
        ]
        feed = Feed(feeding, stdin) if feeding >= 0 and isinstance(stdin, bytes) else None
        verdict: asyncio.Future[tuple[Killed, str]] = asyncio.get_running_loop().create_future()
        self._running[child] = verdict
        try:
            ended, killed = await self._until_end(child, verdict, flooded, began + allowed, before)
            await _drained(captures)
        except asyncio.CancelledError:
            await asyncio.shield(self._end_tree(child))
            raise
        finally:
            del self._running[child]
            if feed is not None:
                feed.close()
            for capture in captures:
                capture.close()
        if killed is not None and killed[0] is Killed.TIME:
            killed = Killed.TIME, f"killed: it took longer than {allowed:g} s"
        first = [capture.first_at for capture in captures if capture.first_at is not None]
        return Result(
            code=ended.code,
            stdout=captures[0].kept,
            stderr=captures[1].kept,
            stdout_bytes=captures[0].total,
            stderr_bytes=captures[1].total,
            killed=None if killed is None else killed[0],
            reason="" if killed is None else killed[1],
            seconds=time.perf_counter() - began,
            first_output=min(first) - began if first else None,
            cpu=ended.cpu,
            peak=ended.peak,
        )

    async def _until_end(
        self,
        child: Child,
        verdict: asyncio.Future[tuple[Killed, str]],
        flooded: asyncio.Event,
        deadline: float,
        before: tuple[int, int],
    ) -> tuple[Ended, tuple[Killed | None, str] | None]:
        flood = asyncio.ensure_future(flooded.wait())
        try:
            left = max(0.0, deadline - time.perf_counter())
            await asyncio.wait({child.ended, verdict, flood}, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        finally:
            flood.cancel()
        if child.ended.done():
            ended = child.ended.result()
            if verdict.done():
                return ended, verdict.result()
            if flooded.is_set():
                await self._end_tree(child)
                return ended, (Killed.OUTPUT, _flood(self.limits.flood))
            if self._gone:
                return ended, (Killed.SANDBOX, f"killed: {self._gone}")
            return ended, await self._met_a_limit(child, before)
        if verdict.done():
            killed = verdict.result()
        elif flooded.is_set():
            killed = Killed.OUTPUT, _flood(self.limits.flood)
        else:
            killed = Killed.TIME, "killed: it took longer than it may"
        await self._end_tree(child)
        return await child.ended, killed

    async def _terminal(self, own: socket.socket, child: Child) -> list[int]:
        """What comes from the other side: the terminal; of a program that process 1 is to be the parent of, also the
        pipe for its exit code and a pidfd."""
        loop = asyncio.get_running_loop()
        ready = loop.create_future()
        loop.add_reader(own.fileno(), lambda: ready.done() or ready.set_result(None))
        try:
            await asyncio.wait({ready, child.ended}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            loop.remove_reader(own.fileno())
        with contextlib.suppress(BlockingIOError):
            _, fds, _, _ = socket.recv_fds(own, 16, 3)
            if fds:
                return fds
        raise SandboxGone(f"no terminal could be opened in sandbox {self.id}")


class _Descriptor:
    """A file descriptor that is closed at the end."""

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def __enter__(self) -> _Descriptor:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.fd)


def _flood(most: int) -> str:
    return f"killed: it printed more than {most:,} bytes"


async def _drained(captures: list[Capture]) -> None:
    waiting = [capture.closed for capture in captures if not capture.closed.done()]
    if waiting:
        await asyncio.wait(waiting, timeout=_GRACE)


def _words(command: str | Sequence[str]) -> list[str]:
    return [*_SHELL, command] if isinstance(command, str) else list(command)


def _complaint(done: Result) -> str:
    if done.reason:
        return done.reason
    lines = done.stderr.decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else f"exit code {done.code}"

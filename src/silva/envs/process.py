"""The engine's side of one host process: start it, call it, notice when it dies or hangs.

    call(op, instance, …) ─▶ Request frame ─▶ host … Reply frame ─▶ the waiting future

A host that blocks (a synchronous environment that hangs) is killed: the oldest call is the culprit and fails as
`env.timeout`, every other call in it as `host.died`. Calls that merely wait for ever are ended by the host itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from time import monotonic
from typing import Any

import msgspec

from silva.envs import wire
from silva.envs.errors import EnvError
from silva.envs.protocol import Capabilities
from silva.envs.wire import Frames, Hello, Reply, Request
from silva.errors import UsageError
from silva.tree import Json

_GRACE = 0.5  # seconds a host gets to end a late call itself before it is taken to be blocked
_WATCH = 0.1  # seconds between looks at the oldest call


@dataclass(frozen=True)
class Launch:
    """How to start hosts of one environment: interpreter, class, options, limits, process environment. `packages`: what
    a kept state depends on, the environment's own first."""

    name: str
    python: str
    target: str
    options: Json
    memory_limit_mb: int | None
    start_timeout: float
    environ: Mapping[str, str]
    packages: tuple[str, ...] = ()


@dataclass
class _Call:
    future: asyncio.Future[Reply]
    op: str
    limit: float
    sent: float


class HostProcess:
    """One running host. Make it with `await HostProcess.start(launch)`; once `dead` it stays so."""

    def __init__(self, launch: Launch) -> None:
        self.launch = launch
        self.dead: EnvError | None = None
        self.hello: Hello | None = None
        self.seconds = 0.0
        self.answered = 0
        self.good = False
        """Whether a step has been answered well: what tells an unlucky host from a hopeless one."""
        self._calls: dict[int, _Call] = {}
        self._next = 0
        self._heard = monotonic()
        self._overdue: _Call | None = None
        self._tail: deque[str] = deque(maxlen=20)
        self._partial = b""
        self._loop = asyncio.get_running_loop()
        self._gone = asyncio.Event()
        self._drained = asyncio.Event()

    @property
    def capabilities(self) -> Capabilities:
        """What the environment declares."""
        assert self.hello is not None
        return self.hello.capabilities

    @classmethod
    async def start(cls, launch: Launch) -> HostProcess:
        """Start a host and wait for its hello.

        Raises:
            EnvError: `host.spawn`, with the reason (the import error, or the last line on stderr).
            UsageError: the target names an environment that its module knows not to exist.
        """
        host = cls(launch)
        try:
            await host._spawn()
        except BaseException:
            host.kill()
            raise
        return host

    async def _spawn(self) -> None:
        launch = self.launch
        ours, theirs = socket.socketpair()
        errors_out, errors_in = socket.socketpair()
        command = [launch.python, "-m", "silva.envs.host", "--channel", str(theirs.fileno())]
        command += [
            "--parent",
            str(os.getpid()),
            "--target",
            launch.target,
            "--memory",
            str(launch.memory_limit_mb or 0),
        ]
        command += ["--options", msgspec.json.encode(launch.options).decode()]
        self._calls[0] = hello = _Call(self._loop.create_future(), "start", launch.start_timeout, monotonic())
        try:
            # Spawned on this thread and no other: the host dies with the thread that started it.
            self._process = subprocess.Popen(  # noqa: ASYNC220 - a vfork of a millisecond
                command,
                stdin=subprocess.DEVNULL,
                stdout=errors_in.fileno(),
                stderr=errors_in.fileno(),
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
                env=dict(launch.environ),
            )
        except OSError as error:
            ours.close()
            errors_out.close()
            raise EnvError("host.spawn", f"{launch.name}: cannot start a host: {error.strerror}") from error
        finally:
            theirs.close()
            errors_in.close()
        self._frames = Frames(self._received, self._lost)
        self._watch = self._loop.call_later(_WATCH, self._look)
        await self._loop.create_unix_connection(lambda: _Lines(self._said, self._drained), sock=errors_out)
        await self._loop.create_unix_connection(lambda: self._frames, sock=ours)
        reply = await hello.future
        if reply.fault is not None and reply.fault.code == "usage":
            raise fault_error(launch.name, reply.fault)
        if reply.fault is not None:
            raise EnvError("host.spawn", f"{launch.name}: cannot start: {reply.fault.message}", retryable=False)
        self.hello = reply.hello

    async def call(self, op: str, instance: int, limit: float, **fields: Any) -> Reply:
        """Ask the host and wait. `fields` are those of `Request`; `limit` is in seconds.

        Raises:
            EnvError: the environment or the host failed.
            UsageError: the environment has no such thing (split, task, policy).
        """
        if self.dead is not None:
            raise EnvError(self.dead.kind, str(self.dead), retryable=self.dead.retryable)
        self._next = number = self._next + 1
        future = self._loop.create_future()
        now = monotonic()
        if not self._calls:
            self._heard = now  # silence counts only while an answer is owed
        self._calls[number] = _Call(future, op, limit, now)
        try:
            self._frames.send(wire.encode(Request(number, op, instance, limit, **fields)))
        except (TypeError, OverflowError) as error:  # a task or action that is not plain data
            del self._calls[number]
            raise UsageError(f"{self.launch.name}: {op}: cannot be sent to the environment: {error}") from error
        reply: Reply = await future
        fault = reply.fault
        if fault is not None:
            if fault.code == "env.memory":
                fault.message += f" (the host may have {self.launch.memory_limit_mb} MB)"
            raise fault_error(self.launch.name, fault)
        if op == "step":
            self.good = True
        return reply

    def tell(self, op: str, instance: int, limit: float) -> None:
        """Ask without waiting; a failure is of no interest."""
        if self.dead is None:
            self._next = number = self._next + 1
            if not self._calls:
                self._heard = monotonic()
            future: asyncio.Future[Reply] = self._loop.create_future()
            future.add_done_callback(lambda done: done.cancelled() or done.exception())
            self._calls[number] = _Call(future, op, limit, monotonic())
            self._frames.send(wire.encode(Request(number, op, instance, limit)))

    def _received(self, frame: bytes) -> None:
        self._heard = monotonic()
        try:
            reply = wire.decode_reply(frame)
        except msgspec.DecodeError as error:
            try:
                number = wire.reply_id(frame)
            except msgspec.DecodeError:
                self.kill()
                return
            reply = Reply(number, fault=wire.Fault("env.garbage", f"returned a record of the wrong shape: {error}"))
        self.seconds += reply.seconds
        self.answered += 1
        call = self._calls.pop(reply.id, None)
        if call is not None and not call.future.done():
            call.future.set_result(reply)

    def _look(self) -> None:
        """Kill the host when the oldest call is overdue and nothing has been heard for as long."""
        now = monotonic()
        if self._calls:
            call = next(iter(self._calls.values()))
            if now - max(call.sent, self._heard) > call.limit + _GRACE:
                self._overdue = call
                self.kill()
                return
        self._watch = self._loop.call_later(_WATCH, self._look)

    def _said(self, data: bytes) -> None:
        *lines, self._partial = (self._partial + data).split(b"\n")
        self._partial = self._partial[-2000:]
        self._tail.extend(line.decode(errors="replace").strip()[:400] for line in lines if line.strip())

    def _lost(self) -> None:
        self._loop.create_task(self._bury())

    async def _bury(self) -> None:
        """Learn how the host ended, then fail what waited on it."""
        for _ in range(200):  # a second to end by itself: its exit status tells more than our kill would
            if self._process.poll() is not None:
                break
            await asyncio.sleep(0.005)
        self.kill()
        await asyncio.get_running_loop().run_in_executor(None, self._process.wait)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._drained.wait(), 0.2)
        self._watch.cancel()
        name, how, kind = self.launch.name, self._how(), "host.died"
        if self.hello is None:
            kind = "host.spawn"
        self.dead = EnvError(kind, f"{name}: host {'did not start' if self.hello is None else 'ended'}: {how}")
        flooded = next(iter(self._calls.values()), None) if self._ran_out_of_memory() else None
        for call in self._calls.values():
            if call.future.done():
                continue
            error = EnvError(self.dead.kind, str(self.dead), retryable=self.dead.retryable)
            if call is self._overdue and call.op != "start":
                error = EnvError("env.timeout", f"{name}: {call.op} took longer than {call.limit:g} s")
            elif call is flooded and call.op != "start":
                error = EnvError("env.memory", f"{name}: {call.op} ran out of memory: {how}")
            call.future.set_exception(error)
        self._calls.clear()
        self._gone.set()

    def _ran_out_of_memory(self) -> bool:
        signs = ("bad_alloc", "MemoryError", "Cannot allocate memory", "out of memory", "OutOfMemory")
        if self._overdue is not None or self._process.returncode in (0, wire.EXIT_MEMORY, wire.EXIT_HUNG):
            return False
        return any(sign in line for line in self._tail for sign in signs)

    def _how(self) -> str:
        last = f"; last words: {self._tail[-1]}" if self._tail else ""
        if self._overdue is not None:
            return f"killed: {self._overdue.op} did not return in {self._overdue.limit:g} s"
        status = self._process.returncode
        if status == wire.EXIT_MEMORY:
            return f"an instance in it went over the memory limit of {self.launch.memory_limit_mb} MB"
        if status == wire.EXIT_HUNG:
            return "an instance in it hung"
        if status < 0:
            why = " (not by silva: the kernel's out-of-memory killer?)" if -status == signal.SIGKILL else ""
            return f"killed by {signal.Signals(-status).name}{why}{last}"
        return f"exit status {status}{last}"

    def kill(self) -> None:
        """End the host and what it started, at once."""
        process: subprocess.Popen[bytes] | None = getattr(self, "_process", None)
        if process is not None and process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)

    async def close(self) -> None:
        """Let the host close its instances and end; kill it if it takes more than two seconds."""
        if self.dead is None and self.hello is not None:
            self._frames.send(wire.encode(Request(0, "shutdown", 0, 0.0)))
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._gone.wait(), 2.0)
        self.kill()
        await self._gone.wait()


class _Lines(asyncio.Protocol):
    """The host's stderr."""

    def __init__(self, said: Any, drained: asyncio.Event) -> None:
        self._said = said
        self._drained = drained

    def data_received(self, data: bytes) -> None:
        self._said(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._said(b"\n")
        self._drained.set()


def fault_error(name: str, fault: wire.Fault) -> Exception:
    """The exception that a fault means to the engine."""
    if fault.code == "usage":
        return UsageError(f"{name}: {fault.message}")
    return EnvError(fault.code, f"{name}: {fault.message}")

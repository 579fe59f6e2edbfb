"""The owner's side of the fork server: asks for children, hears of their ends.

    Spawner.open ─▶ a fork server ─▶ create | enter | stop | listen ─▶ Child (a number; a future of how it ended)

One spawner belongs to one event loop. It is the only way by which the backends start processes.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from silva.errors import SilvaError, UsageError
from silva.sandbox.forkserver import own
from silva.sandbox.forkserver.serve import LARGEST, SENDING
from silva.tree import Record

_LARGEST = 128 << 10
"""Bytes of a command's arguments and variables together."""
_CRIU_SECONDS = 120.0
"""What CRIU gets to write down, or bring back; desktops take half a second."""
_TICKS = os.sysconf("SC_CLK_TCK")
_SCRIPT = "import sys; sys.path.insert(0, sys.argv[1]); from forkserver.serve import main; main(int(sys.argv[2]))"


class Ended(Record, frozen=True, kw_only=True):
    """How a child ended: `code` is minus the signal's number for one that was killed; seconds of processor; bytes."""

    code: int
    cpu: float = 0.0
    peak: int = 0


class Child:
    """A process that the fork server waits for.

    Attributes:
        number: the name it has between owner and fork server.
        pid: its process id on this machine.
        at: when it was asked for, in ticks since boot, as the kernel dates processes.
        ended: becomes how it ended.
    """

    def __init__(self, number: int, loop: asyncio.AbstractEventLoop) -> None:
        self.number = number
        self.pid = 0
        self.at = int(time.clock_gettime(time.CLOCK_BOOTTIME) * _TICKS)
        self.started: asyncio.Future[int] = loop.create_future()
        self.ended: asyncio.Future[Ended] = loop.create_future()


class Spawner:
    """A fork server and the way to it. Make one by `Spawner.open`."""

    def __init__(self, process: subprocess.Popen[bytes], channel: socket.socket) -> None:
        self._process = process
        self._channel = channel
        self._loop = asyncio.get_running_loop()
        self._numbers = itertools.count(1)
        self._children: dict[int, Child] = {}
        self._lost = False
        channel.setblocking(False)
        self._loop.add_reader(channel.fileno(), self._heard)

    @classmethod
    async def open(
        cls, folder: Path | None, filter_program: bytes, groups: list[str], *, labels: bool = False
    ) -> Spawner:
        """Start a fork server.

        Args:
            folder: what it removes when the owner is gone; None where that alone would leave something behind.
            filter_program: the seccomp filter of everything in namespaces.
            groups: control groups it removes when the owner is gone.
            labels: whether it is then to look for processes that carry the label of a sandbox, too.
        """
        mine, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for each in (mine, other):
            each.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SENDING)
        with other:
            command = [sys.executable, "-I", "-S", "-c", _SCRIPT, str(Path(__file__).parent), str(other.fileno())]
            process = subprocess.Popen(  # noqa: ASYNC220 - it returns as soon as the program is loaded
                command, pass_fds=[other.fileno()], stdin=subprocess.DEVNULL, env={"PATH": os.defpath}, cwd="/"
            )
        spawner = cls(process, mine)
        settings = {"do": "settings", "filter": filter_program.hex(), "folder": str(folder or ""), "groups": groups}
        await spawner._send({**settings, "labels": labels}, [])
        return spawner

    @property
    def pid(self) -> int:
        """The fork server's process id."""
        return self._process.pid

    async def deputy(self, groups: list[str]) -> Child:
        """A process in control groups that forks for a sandbox; `groups` are the files to join by.

        Raises:
            SilvaError: they cannot be joined.
        """
        child = await self._begin({"do": "deputy", "groups": groups}, [])
        child.pid = await child.started
        return child

    async def dismiss(self, deputy: Child) -> None:
        """End a deputy."""
        await self._send({"do": "dismiss", "deputy": deputy.number}, [])
        await deputy.ended

    async def create(self, message: dict[str, Any], status: int) -> Child:
        """Start a sandbox's first process; what it is and whatever goes wrong is written to `status`."""
        child = await self._begin({**message, "do": "create"}, [status])
        child.pid = await child.started
        return child

    async def enter(self, message: dict[str, Any], fds: list[int]) -> Child:
        """Start a program, in a sandbox or (`sandbox` 0) outside.

        Raises:
            SilvaError: it could not be started.
            UsageError: its arguments are too many.
        """
        given = [*message["arguments"], *message["variables"], *message["variables"].values()]
        if any("\0" in each for each in given):
            raise UsageError("a command and its variables cannot hold a null byte")
        if any(not name or "=" in name for name in message["variables"]):
            raise UsageError("a variable's name is not empty, and holds no =")
        room = sum(len(each.encode("utf-8", "surrogatepass")) for each in given)
        if room > _LARGEST:
            raise _too_long(room)
        child = await self._begin({**message, "do": "enter"}, fds)
        child.pid = await child.started
        return child

    async def stop(self, message: dict[str, Any]) -> int:
        """Kill in a sandbox: `how` is `all`, or `tree` with `root` and `others` (process ids as seen inside); or only
        `count` what runs there (at most 100).

        Raises:
            SandboxGone: it has ended.
        """
        child = await self._begin({**message, "do": "stop"}, [])
        await child.started
        return (await child.ended).code

    async def veil(self, message: dict[str, Any], ready: int) -> Child:
        """Make a second room in a sandbox; whether it could is written to `ready`. Raises SandboxGone."""
        child = await self._begin({**message, "do": "veil"}, [ready])
        child.pid = await child.started
        return child

    async def listen(self, message: dict[str, Any]) -> socket.socket:
        """A socket listening on the sandbox's loopback at `port`.

        Raises:
            SilvaError: it cannot be had.
        """
        mine, other = socket.socketpair()
        with mine:
            with other:
                child = await self._begin({**message, "do": "listen"}, [other.fileno()])
            await child.started
            _, fds, _, _ = socket.recv_fds(mine, 16, 1)
        await child.ended
        if not fds:
            raise SilvaError(f"no socket could be opened on port {message['port']} of the sandbox: is it taken there?")
        return socket.socket(fileno=fds[0])

    async def dump(self, message: dict[str, Any], complaints: int) -> int:
        """Have CRIU write processes down; its exit code, -9 where it did not end in time. Raises SandboxGone."""
        return await self._within(await self._begin({**message, "do": "dump"}, [complaints]))

    async def bring_back(self, message: dict[str, Any], fds: list[int]) -> int:
        """Have CRIU bring processes back; its exit code, -9 where it did not end in time. `fds`: where it may complain,
        then what they had open. Raises SandboxGone."""
        return await self._within(await self._begin({**message, "do": "restore"}, fds))

    async def _within(self, child: Child) -> int:
        done, _ = await asyncio.wait([child.ended], timeout=_CRIU_SECONDS)
        if not done:
            await self.signal(child, signal.SIGKILL)
        return (await child.ended).code

    async def adopt(self, pid: int) -> Child:
        """Take process 1 of a sandbox that was brought back as a child. Raises SandboxGone."""
        child = await self._begin({"do": "adopt", "pid": pid}, [])
        child.pid = await child.started
        return child

    async def loopback(self, message: dict[str, Any]) -> bool:
        """Take up a sandbox's loopback; whether that could be done."""
        return (await (await self._begin({**message, "do": "loopback"}, [])).ended).code == 0

    async def signal(self, child: Child, number: int) -> None:
        """Send a child a signal, if it has not ended."""
        await self._send({"do": "signal", "number": child.number, "signal": number}, [])

    async def halt(self, child: Child, first: int) -> None:
        """Kill a sandbox's process 1, and wait until all that was in it has ended."""
        await self._send({"do": "halt", "sandbox": child.number, "first": first}, [])
        await child.ended

    async def close(self) -> None:
        """End the fork server and with it everything it started."""
        if not self._lost:
            self._loop.remove_reader(self._channel.fileno())
        self._lost = True
        self._channel.close()
        await asyncio.to_thread(self._process.wait)
        self._fail()

    async def _begin(self, message: dict[str, Any], fds: list[int]) -> Child:
        child = Child(next(self._numbers), self._loop)
        self._children[child.number] = child
        message["number"] = child.number
        try:
            await self._send(message, fds)
        except UsageError:
            del self._children[child.number]
            raise
        return child

    async def _send(self, message: dict[str, Any], fds: list[int]) -> None:
        try:
            data = own.encoded(message)
        except UnicodeEncodeError as error:
            raise UsageError(
                "a command cannot hold half a character: give whole ones, or put it into a file"
            ) from error
        if len(data) > LARGEST:
            raise _too_long(len(data))
        while not self._lost:
            try:
                socket.send_fds(self._channel, [data], fds)
                return
            except BlockingIOError:
                await self._writable()
            except ConnectionError:
                break
        self._fail()
        raise SandboxGone("the fork server has ended, and all its sandboxes with it: open the backend again")

    async def _writable(self) -> None:
        ready = self._loop.create_future()
        fd = self._channel.fileno()
        self._loop.add_writer(fd, lambda: ready.done() or ready.set_result(None))
        try:
            await ready
        finally:
            self._loop.remove_writer(fd)

    def _heard(self) -> None:
        while True:
            try:
                data = self._channel.recv(1 << 16)
            except BlockingIOError:
                return
            except ConnectionError:
                data = b""
            if not data:
                self._lost = True
                self._loop.remove_reader(self._channel.fileno())
                self._fail()
                return
            self._told(json.loads(data))

    def _told(self, message: dict[str, Any]) -> None:
        child = self._children.get(message["number"])
        if child is None:
            return
        if message["event"] == "started":
            child.pid = message["pid"]
            _set(child.started, message["pid"])
            return
        del self._children[child.number]
        if message["event"] == "failed":
            kind = SandboxGone if "has ended" in message["why"] else SilvaError
            error = kind(f"nothing can be started in the sandbox: {message['why']}")
            _set(child.ended, Ended(code=125))
            if not child.started.done():
                child.started.set_exception(error)
            return
        _set(child.started, child.pid)
        _set(child.ended, Ended(code=message["code"], cpu=message["cpu"], peak=message["peak"]))

    def _fail(self) -> None:
        for child in list(self._children.values()):
            _set(child.ended, Ended(code=-9))
            _set(child.started, child.pid)
        self._children.clear()


def _too_long(size: int) -> UsageError:
    return UsageError(f"a command of {size:,} bytes is too long (at most {_LARGEST:,}): put it into a file")


class SandboxGone(SilvaError):
    """The sandbox, or what holds it, has ended."""


def _set(future: asyncio.Future[Any], value: Any) -> None:
    if not future.done():
        future.set_result(value)

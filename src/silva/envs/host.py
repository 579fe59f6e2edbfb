"""A host process: one environment class, many instances, one channel to the engine. `python -m silva.envs.host`.

    channel (fd) ─▶ frame ─▶ Request ─▶ task on the loop ─▶ Instances.handle ─▶ Reply ─▶ frame

It runs in Silva's interpreter or in an environment's own virtual one, where it needs nothing but msgspec. Third-party
code cannot touch the channel: its descriptor is no standard stream and is not inherited, stdin is empty, and whatever
is printed goes to stderr, whose last lines the engine keeps. The host ends with its parent, and has a memory limit.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import ctypes
import importlib
import importlib.util
import os
import resource
import signal
import socket
import sys
from pathlib import Path
from time import monotonic
from typing import Any

import msgspec

from silva.envs import wire
from silva.envs.instances import Instances, describe
from silva.envs.wire import Fault, Frames, Reply, Request
from silva.errors import UsageError

_PR_SET_PDEATHSIG = 1
_FAREWELL = 1.0  # seconds that instances get to close in


class Host:
    """Serves requests from the channel until it closes."""

    def __init__(self, instances: Instances, channel: socket.socket) -> None:
        self._instances = instances
        self._channel = channel
        self._running: dict[int, tuple[asyncio.Task[Any] | None, float, Request]] = {}
        self._tasks: set[asyncio.Task[None]] = set()  # the loop itself holds tasks but weakly
        self._late: set[int] = set()
        self._ballast: bytes | None = bytes(1 << 20)  # given up on MemoryError, so that saying so has room

    async def serve(self) -> None:
        """Say hello, then answer until the engine hangs up."""
        loop = asyncio.get_running_loop()
        self._over = asyncio.Event()
        self._frames = Frames(self._received, self._over.set)
        await loop.create_unix_connection(lambda: self._frames, sock=self._channel)
        self._frames.send(wire.encode(Reply(0, hello=self._instances.hello())))
        watch = loop.create_task(self._watch())
        await self._over.wait()
        watch.cancel()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._instances.close(), _FAREWELL)

    def _received(self, frame: bytes) -> None:
        request = wire.decode_request(frame)
        if request.op == "shutdown":
            self._over.set()
            return
        self._tasks.add(task := asyncio.get_running_loop().create_task(self._answer(request)))
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, request: Request) -> None:
        # The time starts here, not on arrival: a call may have queued behind its neighbours' synchronous work.
        self._running[request.id] = (asyncio.current_task(), monotonic() + request.limit, request)
        try:
            reply = await self._instances.handle(request)
        except asyncio.CancelledError:
            if request.id not in self._late:
                raise
            reply = _late(request)
        self._running.pop(request.id, None)
        self._late.discard(request.id)
        self._reply(request, reply)

    def _reply(self, request: Request, reply: Reply) -> None:
        try:
            body = wire.encode(reply)
        except MemoryError:
            reply.fault = Fault("env.memory", f"{request.op}: out of memory")
            body = b""
        except Exception as error:  # noqa: BLE001 - whatever an environment put into a record
            fault = Fault("env.garbage", f"{request.op} returned what cannot be encoded: {describe(error)}")
            body = wire.encode(Reply(request.id, reply.seconds, fault))
        if reply.fault is not None and reply.fault.code == "env.memory":
            self._ballast = None
            self._frames.send(wire.encode(Reply(request.id, reply.seconds, reply.fault)))
            self._frames.flush()
            os._exit(wire.EXIT_MEMORY)
        if len(body) > wire.FRAME_LIMIT:
            text = f"{request.op} returned {len(body) >> 20} MB; the limit is {wire.FRAME_LIMIT >> 20} MB"
            body = wire.encode(Reply(request.id, reply.seconds, Fault("env.garbage", text)))
        self._frames.send(body)

    async def _watch(self) -> None:
        """End calls that wait for ever without blocking the loop; one that blocks it is the engine's to end."""
        while True:
            await asyncio.sleep(0.1)
            now = monotonic()
            for number, (task, deadline, request) in list(self._running.items()):
                if now < deadline or number in self._late:
                    continue
                self._late.add(number)
                if self._instances.threaded:  # a thread cannot be cancelled, so the whole host goes
                    self._reply(request, _late(request))
                    self._frames.flush()
                    os._exit(wire.EXIT_HUNG)
                assert task is not None
                task.cancel()


def _late(request: Request) -> Reply:
    return Reply(request.id, request.limit, Fault("env.timeout", f"{request.op} took longer than {request.limit:g} s"))


def load(target: str) -> Any:
    """The class that `module:Class` or `path/to/file.py:Class` names.

    The part after the colon may be any name the module answers to, so that a module's `__getattr__` can make a
    family of environments (`silva.envs.gyms.gymnasium_bridge:FrozenLake-v1`).

    Raises:
        ImportError, AttributeError: it cannot be found; or whatever its module raises when imported.
    """
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.append(here)  # last: a module there may be named, and never stands for a library's
    place, _, name = target.rpartition(":") if ".py:" in target else target.partition(":")
    if place.endswith(".py"):
        spec = importlib.util.spec_from_file_location(f"silva_environment_{Path(place).stem}", place)
        if spec is None or spec.loader is None:
            raise ImportError(f"{Path(place).name} is not a Python file")
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
    else:
        module = importlib.import_module(place)
    return getattr(module, name)


def _die_with(parent: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(0)


def _limit_memory(megabytes: int) -> None:
    # RLIMIT_DATA, not RLIMIT_AS: it counts memory that may be written, not address space that a JVM or torch reserves.
    if megabytes > 0:
        resource.setrlimit(resource.RLIMIT_DATA, (megabytes << 20, megabytes << 20))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def main() -> None:
    """Parse the arguments the engine gives, take the channel, import the environment, serve."""
    parser = argparse.ArgumentParser(prog="python -m silva.envs.host", description="Internal: started by silva.")
    parser.add_argument("--channel", type=int, required=True)
    parser.add_argument("--parent", type=int, required=True)
    parser.add_argument("--target", required=True)
    parser.add_argument("--options", default="{}")
    parser.add_argument("--memory", type=int, default=0)
    arguments = parser.parse_args()
    _die_with(arguments.parent)
    channel = socket.socket(fileno=arguments.channel)
    channel.set_inheritable(False)
    os.dup2(2, 1)
    _limit_memory(arguments.memory)
    os.environ.pop("PYTHONSAFEPATH", None)  # the engine's word to this process, not to programs of the environment
    try:
        instances = Instances(load(arguments.target), msgspec.json.decode(arguments.options))
        instances.hello()
    except UsageError as mistake:
        channel.sendall(_frame(Reply(0, fault=Fault("usage", str(mistake)))))
        os._exit(1)
    except BaseException as error:  # noqa: BLE001 - importing third-party code may raise anything; the engine is told
        channel.sendall(_frame(Reply(0, fault=Fault("host.spawn", f"{arguments.target}: {describe(error)}"))))
        os._exit(1)
    asyncio.run(Host(instances, channel).serve())
    sys.stderr.flush()
    os._exit(0)  # third-party threads and exit hooks must not keep a finished host alive


def _frame(reply: Reply) -> bytes:
    body = wire.encode(reply)
    return len(body).to_bytes(4, "little") + body


if __name__ == "__main__":
    main()

"""The connection to a Ray cluster. Ray is imported here and in no other module of this room.

    address ─▶ knock (does gRPC answer there?) ─▶ ray.init ─▶ Cluster: nodes, actors, tasks ─▶ ray.shutdown

What is Ray's own trouble leaves this module as one of three: `UnreachableError` (no cluster, no room for now),
`MissingError` (ray is not installed, Silva is not on a node) and `Gone` (a worker or its node is no more).
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from silva.errors import MissingError, SilvaError, UnreachableError
from silva.rollout.config import RayConfig
from silva.rollout.on_ray.placement import RayNode

KNOCK_SECONDS = 5.0
TOKEN_VARIABLE = "RAY_AUTH_TOKEN"
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
"""What a client of HTTP/2 says first: its preface and an empty SETTINGS frame (RFC 9113, 3.4)."""
_SETTINGS = 4


class Gone(SilvaError):
    """A worker is no more, or cannot be reached; the message says why in a few words."""


class Cluster:
    """An open connection. Made by `connected`."""

    def __init__(self, ray: Any, address: str) -> None:
        self._ray = ray
        self.address = address

    def nodes(self) -> list[RayNode]:
        """The living nodes."""
        return [
            RayNode(id=node["NodeID"], address=node["NodeManagerAddress"], cpus=node["Resources"].get("CPU", 0.0))
            for node in self._ray.nodes()
            if node["Alive"]
        ]

    def own_address(self) -> str:
        """The address of the node that this process is on."""
        return self._ray.util.get_node_ip_address()

    def actor(self, kind: type, node: str, cpus: float) -> Any:
        """Start a process on a node that holds one object of `kind`; not started again when it dies."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        where = NodeAffinitySchedulingStrategy(node_id=node, soft=True)
        made = self._ray.remote(kind).options(
            num_cpus=cpus, max_restarts=0, max_task_retries=0, scheduling_strategy=where
        )
        return made.remote()

    def task(self, function: Callable[..., Any], cpus: float, *arguments: Any) -> Any:
        """Begin a task somewhere; the answer is for `result`. Up to three times it is begun again where it was lost."""
        made = self._ray.remote(function).options(num_cpus=cpus, max_retries=3, scheduling_strategy="SPREAD")
        return made.remote(*arguments)

    def result(self, task: Any) -> Any:
        """What a task returned, blocking.

        Raises:
            Gone: it was lost four times.
        """
        try:
            return self._ray.get(task)
        except self._ray.exceptions.RayError as error:
            raise self._told(error) from error

    def kill(self, actor: Any) -> None:
        """End an actor's process, whatever it does."""
        self._ray.kill(actor, no_restart=True)

    async def ask(self, reply: Awaitable[Any], seconds: float) -> Any:
        """What an actor's method returned.

        Raises:
            Gone: the actor is no more, or said nothing for so long.
        """
        try:
            async with asyncio.timeout(seconds):
                return await reply
        except TimeoutError as error:
            raise Gone(f"no answer in {seconds:g} s") from error
        except self._ray.exceptions.RayError as error:
            raise self._told(error) from error

    def _told(self, error: Any) -> Exception:
        """Ray's error in a few words; one that our own code raised there as it is."""
        exceptions = self._ray.exceptions
        if isinstance(error, exceptions.RayTaskError):
            return error
        text = " ".join(str(error).split())
        if "No module named 'silva'" in text or "No module named 'msgspec'" in text:
            return MissingError(f"Silva is not installed on every node of the Ray cluster at {self.address}")
        if "running low on memory" in text or isinstance(error, exceptions.OutOfMemoryError):
            return Gone("Ray ended it, its node was running low on memory: lower pool")
        if isinstance(error, exceptions.ActorUnavailableError):
            return Gone("it cannot be reached")
        if "node was dead" in text or "node has died" in text or "node died" in text or "node is dead" in text:
            return Gone("its node died")
        return Gone("its process died")


def library() -> Any:
    """The package ray.

    Raises:
        MissingError: it is not installed.
    """
    try:
        import ray
        import ray.exceptions
        import ray.util
    except ImportError as fault:
        raise MissingError("on: ray needs the package ray: pip install 'silva[ray]'") from fault
    return ray


@contextmanager
def connected(config: RayConfig) -> Iterator[Cluster]:
    """A connection for the length of the block. One that this process has already is used, and kept.

    Raises:
        MissingError: ray is not installed.
        UnreachableError: there is no cluster at the address, or it does not let us in.
    """
    ray = library()
    if ray.is_initialized():
        yield Cluster(ray, config.address)
        return
    address = _found(config.address)
    with _quiet():
        try:
            with _own_signals(), _silent_core():
                ray.init(address=address, log_to_driver=False, configure_logging=False)
        except (ConnectionError, RuntimeError, ValueError, ray.exceptions.RayError) as fault:
            raise _nobody(config.address) from fault
        try:
            yield Cluster(ray, config.address)
        finally:
            ray.shutdown()


def _found(address: str) -> str:
    """The address as HOST:PORT, somebody answering there: ray itself would try for minutes, and tell every try."""
    from ray._private.services import canonicalize_bootstrap_address_or_die

    try:
        found = canonicalize_bootstrap_address_or_die(address)
        host, _, port = found.rpartition(":")
        with socket.create_connection((host.strip("[]"), int(port)), KNOCK_SECONDS) as knock:
            knock.settimeout(KNOCK_SECONDS)
            knock.sendall(_PREFACE)
            head = knock.recv(9, socket.MSG_WAITALL)
    except (ConnectionError, OSError, ValueError) as fault:
        raise _nobody(address) from fault
    if len(head) < 9 or head[3] != _SETTINGS:
        raise _nobody(address)
    return found


def _nobody(address: str) -> UnreachableError:
    return UnreachableError(
        f"no Ray cluster lets us in at {address!r}: start one (ray start --head), correct ray.address, "
        f"or set its token (RAY_AUTH_MODE=token, {TOKEN_VARIABLE})"
    )


@contextmanager
def _own_signals() -> Iterator[None]:
    """Ray takes SIGTERM for itself; who called us has a use for it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _silent_core() -> Iterator[None]:
    """Ray's core writes to descriptor 2 by itself: a wrong token twenty times before it gives up. One line is enough,
    and it is ours."""
    kept = os.dup(2)
    try:
        with Path(os.devnull).open("w") as nowhere:
            os.dup2(nowhere.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


@contextmanager
def _quiet() -> Iterator[None]:
    """What Ray says of dead workers it prints to standard output, where a command's JSON goes; Silva says it itself."""
    from ray._private import worker

    before, worker._worker_logs_enabled = worker._worker_logs_enabled, False
    try:
        yield
    finally:
        worker._worker_logs_enabled = before

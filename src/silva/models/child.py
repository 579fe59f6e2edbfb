"""Servers as processes of their own: under a warden, gone with all they started when they are stopped or we are gone.

Process ─▶ warden ─▶ command        how it is known to be ready is told by
    Child                its first line on standard output, which is its url: a module of Silva's own
    gateway Worker, vLLM its health path
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import secrets
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import Thread
from typing import IO, Any

import psutil

from silva.errors import MissingError, UsageError
from silva.models import warden
from silva.models.errors import ModelError

TOKEN_VARIABLE = "SILVA_MODEL_TOKEN"
"""Environment variable through which a child gets its token."""

FIRST, LAST = 10240, 65535
"""Ports among which a free one is looked for."""

GRACE = 10.0
"""Seconds between asking a server to stop and making it."""


class Process:
    """See the module.

    Args:
        arguments: the command.
        variables: its environment.
        stdout: as of `subprocess.Popen`, and
        stderr: likewise.
        grace: seconds between asking it to stop and making it.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        variables: Mapping[str, str],
        stdout: int | IO[Any] = subprocess.PIPE,
        stderr: int | None = None,
        grace: float = GRACE,
    ) -> None:
        self._grace = grace
        self.popen = subprocess.Popen(
            [sys.executable, "-I", "-S", str(Path(warden.__file__).resolve()), str(grace), *arguments],
            stdin=subprocess.PIPE,
            stdout=stdout,
            stderr=stderr,
            env=variables,
            start_new_session=True,  # Ctrl-C reaches us first, who still need it for what is to end
        )

    @property
    def pid(self) -> int:
        """The warden's process id."""
        return self.popen.pid

    @property
    def running(self) -> bool:
        """Whether it lives."""
        return self.popen.poll() is None

    def forestalled(self, port: int) -> bool:
        """Whether somebody who was there before this process listens on a port: then what answers there is not its
        server. False where the system does not tell who listens."""
        with contextlib.suppress(psutil.Error):
            began = psutil.Process(self.pid).create_time()
            listening = [
                each.pid
                for each in psutil.net_connections("tcp")
                if each.status == psutil.CONN_LISTEN and each.laddr and each.laddr.port == port and each.pid
            ]
            return any(psutil.Process(pid).create_time() < began for pid in listening)
        return False

    def ask_to_stop(self) -> None:
        """Have it begin to stop, with all it started; does not wait."""
        if self.popen.stdin is not None:
            self.popen.stdin.close()

    async def stop(self) -> None:
        """Stop it; returns when all it started is gone."""
        await asyncio.to_thread(self.stop_now)

    def stop_now(self) -> None:
        """`stop`, blocking."""
        self.ask_to_stop()
        try:
            self.popen.wait(self._grace + 10.0)
        except subprocess.TimeoutExpired:
            self.popen.kill()
            self.popen.wait()


class Child(Process):
    """A module of Silva's own that serves a model; `url` and `token` are how to reach it."""

    url = ""

    def __init__(self, module: str, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
        self.token = secrets.token_urlsafe(24)
        variables = {**os.environ, **environment, TOKEN_VARIABLE: self.token, "PYTHONPATH": python_path()}
        super().__init__([sys.executable, "-P", "-m", module, *arguments], variables)

    def stop_now(self) -> None:
        """See `Process`."""
        super().stop_now()
        assert self.popen.stdout is not None
        self.popen.stdout.close()


def start_child(module: str, arguments: list[str], what: str, environment: dict[str, str] | None = None) -> Child:
    """Start `python -m module arguments` and wait, blocking, until it says its url.

    Args:
        module: a module whose main calls `run_child`.
        arguments: its arguments.
        what: how to call it in an error.
        environment: variables to set besides this process's own.

    Raises:
        UsageError, MissingError: what the child said it needs.
        ModelError: it ended without a word.
    """
    child = Child(module, arguments, environment or {})
    assert child.popen.stdout is not None
    while line := child.popen.stdout.readline().decode("utf-8", "replace").strip():
        kind, _, rest = line.partition(" ")
        if kind == "url":
            child.url = rest
            return child
        if kind == "error":
            child.stop_now()
            name, _, message = rest.partition(" ")
            raise MissingError(message) if name == "MissingError" else UsageError(message)
    child.stop_now()
    code = child.popen.returncode
    raise ModelError("unreachable", f"{what} ended while it started (exit code {code}); its words are above")


def run_child(serve: Callable[[], None]) -> None:
    """In a child: serve, and tell the parent in one line on standard output where it fails in a way a user can mend."""
    try:
        serve()
    except (UsageError, MissingError) as fault:
        print(f"error {type(fault).__name__} {fault}", flush=True)
        sys.exit(int(fault.code))


def python_path() -> str:
    """PYTHONPATH of a child: a checkout that is not installed must still find itself."""
    source = str(Path(__file__).resolve().parents[2])
    return os.pathsep.join(filter(None, (source, os.environ.get("PYTHONPATH"))))


def announce(url: str) -> None:
    """In a child: tell the parent the url."""
    print(f"url {url}", flush=True)


def stop_with_parent(stop: Callable[[], None]) -> None:
    """In a process without a warden: call `stop` once who started it has closed our standard input or died."""

    def wait() -> None:
        while os.read(0, 4096):
            pass
        stop()

    Thread(target=wait, name="silva-parent", daemon=True).start()


def free_port(host: str = "127.0.0.1") -> int:
    """A port nobody listens on, outside the range from which the system gives ports to whoever asks for any: those it
    may give away again before ours is used, and then a stranger would answer there."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    first, last = _given()
    asked = [port for port in random.SystemRandom().sample(range(FIRST, LAST + 1), 1000) if not first <= port <= last]
    for port in (*asked, 0):
        with socket.socket(family, socket.SOCK_STREAM) as found, contextlib.suppress(OSError):
            found.bind((host, port))
            return found.getsockname()[1]
    raise UsageError(f"there is no free port on {host}")


def _given() -> tuple[int, int]:
    """The range of ports the system gives away."""
    try:
        first, last = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()
    except OSError:  # not Linux: as IANA has it
        return 49152, 65535
    return int(first), int(last)

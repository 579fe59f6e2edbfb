"""A gateway under measurement: installed in a virtual environment of its own, started as a process, asked what it kept.

    install(folder) ─▶ start(backend, scratch) ─▶ Running ─▶ endpoints for the clients ─▶ kept() ─▶ Kept(turns, whole)

`kept` asks the gateway's own store, after the load, how many turns it holds and how many different ones of them are whole: exactly the
prompt ids and sampled ids that the backend served, and a log probability for each sampled one. A gateway that answers fast and keeps nothing is seen there.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from gateway_backend import SAMPLED_TOKENS, turn_of
from gateway_load import Endpoint

VENVS = Path(tempfile.gettempdir()) / "silva-peers" / "gateways"
PATIENCE = 120.0
"""Seconds a gateway may take to start, or its store to settle after the load."""
FASTER = ("uvloop==0.23.0", "httptools==0.9.0")
"""What uvicorn takes up when it finds it; added to peers that do not bring it, in their favour."""


@dataclass(frozen=True)
class Kept:
    """What a gateway's store holds: `turns`, and how many different ones are `whole` (see `Whole`)."""

    turns: int
    whole: int
    note: str = ""


@dataclass(frozen=True)
class Running:
    """A started gateway. `endpoints(n)` gives each of n clients a place to send; `kept` waits for the store to hold `wanted` turns."""

    pid: int
    endpoints: Callable[[int], list[Endpoint]]
    kept: Callable[[int], Kept]


class Gateway(Protocol):
    """One gateway that can be measured. `durable` says what holds when the client has its reply."""

    name: str
    version: str
    durable: str
    streams: bool

    def install(self, folder: Path) -> None:
        """Build its virtual environment under `folder` (nothing to do when it stands)."""
        ...

    def missing(self, folder: Path) -> str | None:
        """Why it cannot be started, in one line, or None."""
        ...

    def start(self, backend: str, scratch: Path) -> contextlib.AbstractContextManager[Running]:
        """Start it before the backend (base URL without `/v1`), its files under `scratch`."""
        ...


@dataclass(frozen=True)
class Venv:
    """A virtual environment with exact pins, for an interpreter of at least `python`.

    `whole`: the requirements are all there is to install, so that none of them may bring another of its own choice.
    """

    name: str
    requirements: tuple[str, ...]
    python: tuple[int, int] = (3, 11)
    whole: bool = False

    def interpreter(self, folder: Path) -> Path:
        """Its own interpreter."""
        return folder / self.name / "bin" / "python"

    def missing(self, folder: Path) -> str | None:
        """One line when it is not built with these pins."""
        stamp = folder / self.name / "requirements.txt"
        built = stamp.exists() and stamp.read_text() == "\n".join(self.requirements)
        return None if built else "not installed: run with --install"

    def build(self, folder: Path) -> None:
        """Build it, unless it stands.

        Raises:
            RuntimeError: no interpreter is new enough, or pip could not install the pins.
        """
        if self.missing(folder) is None:
            return
        target = folder / self.name
        shutil.rmtree(target, ignore_errors=True)
        _do([self._base(), "-m", "venv", str(target)])
        _do(
            [
                str(self.interpreter(folder)),
                "-m",
                "pip",
                "install",
                "-q",
                "--disable-pip-version-check",
                *(["--no-deps"] if self.whole else []),
                *self.requirements,
            ]
        )
        (target / "requirements.txt").write_text("\n".join(self.requirements))

    def _base(self) -> str:
        given = os.environ.get("PEER_PYTHON")
        candidates = (
            [given] if given else [sys.executable, *(f"python3.{minor}" for minor in range(self.python[1], 15))]
        )
        for candidate in candidates:
            with contextlib.suppress(OSError):
                asked = subprocess.run(
                    [candidate, "-c", "import sys; print(*sys.version_info[:2])"],
                    capture_output=True,
                    text=True,
                    check=False,
                )
                if asked.returncode == 0 and tuple(map(int, asked.stdout.split())) >= self.python:
                    return candidate
        wanted = ".".join(map(str, self.python))
        raise RuntimeError(f"{self.name} needs Python {wanted} or newer: put it on PATH or name it in PEER_PYTHON")


def _do(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command[1:4])} failed: {done.stderr.strip()[-500:]}")


@contextlib.contextmanager
def process(
    command: list[str], scratch: Path, *, ready: str | None = None, environment: dict[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """A gateway's process in `scratch`, its words in `gateway.log`; given once `ready` answers 200, ended with its children after use.

    Raises:
        RuntimeError: it ended, or was not ready in time; the message holds the end of its log.
    """
    log = scratch / "gateway.log"
    keep = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    with log.open("wb") as out:
        started = subprocess.Popen(
            command,
            cwd=scratch,
            env={**keep, "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1", **(environment or {})},
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        if ready is not None:
            wait_until(lambda: started.poll() is not None or answers(ready), PATIENCE)
        if started.poll() is not None or (ready is not None and not answers(ready)):
            raise RuntimeError(
                f"{Path(command[0]).name} {' '.join(command[1:4])} did not start: {log.read_text(errors='replace')[-800:]}"
            )
        yield started
    finally:
        _end(started)


def _end(started: subprocess.Popen[bytes]) -> None:
    started.terminate()
    try:
        started.wait(10)
    except subprocess.TimeoutExpired:
        started.kill()
        started.wait()
    with contextlib.suppress(ProcessLookupError):
        os.killpg(started.pid, 9)


def wait_until(holds: Callable[[], bool], seconds: float) -> bool:
    """Ask every 100 ms until it holds; False when it never did."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if holds():
            return True
        time.sleep(0.1)
    return holds()


def answers(url: str) -> bool:
    """Whether a GET there gives 200."""
    try:
        with urllib.request.urlopen(url, timeout=5) as reply:
            return reply.status == 200
    except (urllib.error.URLError, OSError):
        return False


def call(url: str, body: Any = None, token: str | None = None) -> Any:
    """One JSON exchange with a gateway's own API: GET, or POST when there is a body."""
    headers = {"content-type": "application/json", **({"authorization": f"Bearer {token}"} if token else {})}
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(url, data, headers), timeout=PATIENCE) as reply:
        return json.loads(reply.read() or b"null")


class Whole:
    """Counts distinct turns whose ids are exactly those served, with a log probability for every sampled one."""

    def __init__(self) -> None:
        self._seen: set[tuple[int, ...]] = set()

    def add(self, prompt: list[int] | None, sampled: list[int] | None, logprobs: list[Any] | None) -> None:
        """Look at one stored turn."""
        if prompt and sampled and len(logprobs or ()) == SAMPLED_TOKENS and (turn := turn_of(prompt, sampled)):
            self._seen.add(turn)

    def __len__(self) -> int:
        return len(self._seen)


@dataclass
class Settling:
    """Waits for a store that is written behind the reply: until it holds `wanted` turns, or stops growing for `still` seconds."""

    count: Callable[[], int]
    still: float = 3.0
    seconds: float = field(default=0.0, init=False)

    def wait(self, wanted: int) -> int:
        """The turns it holds in the end; `seconds` tells how long that took."""
        begun = grown = time.monotonic()
        held = self.count()
        while held < wanted and time.monotonic() - grown < self.still and time.monotonic() - begun < PATIENCE:
            time.sleep(0.1)
            now = self.count()
            if now != held:
                held, grown = now, time.monotonic()
        self.seconds = (grown if held >= wanted or grown > begun else begun) - begun
        return held

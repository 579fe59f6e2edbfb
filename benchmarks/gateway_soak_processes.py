"""What runs beside the clients: the gateway and its backends, started, killed, started again on the same port, and watched.

Process.start ─▶ answers ─▶ kill -9 ─▶ start …          Watch: memory and processor time of each life, every few seconds
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp

PAGE = os.sysconf("SC_PAGE_SIZE")
TICKS = os.sysconf("SC_CLK_TCK")
LONGEST_START = 120.0
WITH_PARENT = "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 9); os.execvp(sys.argv[1], sys.argv[1:])"
"""Run before a command: the kernel kills it when its parent dies, however that ends."""


@dataclass
class Life:
    """One life of a process: samples of (seconds since the run began, resident MB), and the processor time it took."""

    number: int
    began: float
    ready: float = 0.0
    ended: float = 0.0
    how: str = ""
    cpu: float = 0.0
    samples: list[tuple[float, float]] = field(default_factory=list)


class Process:
    """A server that is started and killed again and again, always on the same port.

    Args:
        name: what to call it.
        command: how it is started.
        health: the URL that answers with 200 once it serves.
        folder: where it runs, and where its words go.
        environment: variables besides this process's own.
    """

    def __init__(
        self, name: str, command: Sequence[str], health: str, folder: Path, environment: dict[str, str]
    ) -> None:
        self.name = name
        self.lives: list[Life] = []
        self.log = folder / f"{name}.log"
        self._command, self._health, self._folder, self._environment = list(command), health, folder, environment
        self._process: subprocess.Popen[bytes] | None = None
        self._zero = time.monotonic()

    async def start(self, http: aiohttp.ClientSession) -> float:
        """Start it; the seconds until it answered.

        Raises:
            RuntimeError: it ended, or never answered.
        """
        began = time.monotonic()
        with self.log.open("ab") as words:
            self._process = subprocess.Popen(  # noqa: ASYNC220 - returns at once
                [sys.executable, "-c", WITH_PARENT, *self._command],
                cwd=self._folder,
                env={**os.environ, **self._environment},
                stdin=subprocess.PIPE,
                stdout=words,
                stderr=words,
                start_new_session=True,
            )
        life = Life(len(self.lives), began - self._zero)
        self.lives.append(life)
        while time.monotonic() - began < LONGEST_START:
            if self._process.poll() is not None:
                raise RuntimeError(f"{self.name} ended with {self._process.returncode}: {self.words()[-1500:]}")
            with contextlib.suppress(aiohttp.ClientError, OSError, TimeoutError):
                async with http.get(self._health, timeout=aiohttp.ClientTimeout(total=2)) as answer:
                    if answer.status == 200:
                        life.ready = time.monotonic() - began
                        return life.ready
            await asyncio.sleep(0.05)
        raise RuntimeError(f"{self.name} did not answer within {LONGEST_START:.0f} s: {self.words()[-1500:]}")

    async def kill(self) -> None:
        """`kill -9`."""
        await self._end(signal.SIGKILL, "killed")

    async def stop(self) -> int:
        """Ask it to stop, and wait; its exit code."""
        return await self._end(signal.SIGTERM, "stopped")

    async def _end(self, number: signal.Signals, how: str) -> int:
        if self._process is None:
            return 0
        self.sample()
        self._process.send_signal(number)
        code = await asyncio.to_thread(self._process.wait)
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process = None
        self.lives[-1].ended, self.lives[-1].how = time.monotonic() - self._zero, how
        return code

    @property
    def alive(self) -> bool:
        """Whether it runs; one that ended by itself does not."""
        return self._process is not None and self._process.poll() is None

    @property
    def ended(self) -> bool:
        """Whether it ended although nobody ended it."""
        return self._process is not None and self._process.poll() is not None

    def sample(self) -> None:
        """Note its memory and processor time."""
        if self._process is None:
            return
        with contextlib.suppress(FileNotFoundError, ProcessLookupError, IndexError):
            pages = int(Path(f"/proc/{self._process.pid}/statm").read_text().split()[1])
            times = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
            life = self.lives[-1]
            life.samples.append((round(time.monotonic() - self._zero, 2), round(pages * PAGE / 2**20, 2)))
            life.cpu = (int(times[11]) + int(times[12])) / TICKS

    def words(self) -> str:
        """What it has said so far."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""


async def watch(processes: Sequence[Process], every: float = 2.0) -> None:
    """Sample them for ever.

    Raises:
        RuntimeError: one ended that nobody ended.
    """
    while True:
        for process in processes:
            process.sample()
            if process.ended:
                raise RuntimeError(f"{process.name} ended by itself: {process.words()[-1500:]}")
        await asyncio.sleep(every)


def slope(samples: Sequence[tuple[float, float]], settle: float) -> float | None:
    """MB an hour, by least squares, once a life has settled for so many seconds; None where too little is left."""
    if not samples:
        return None
    taken = [(at, mb) for at, mb in samples if at >= samples[0][0] + settle]
    if len(taken) < 10:
        return None
    middle = sum(at for at, _ in taken) / len(taken)
    mean = sum(mb for _, mb in taken) / len(taken)
    spread = sum((at - middle) ** 2 for at, _ in taken)
    return 3600 * sum((at - middle) * (mb - mean) for at, mb in taken) / spread if spread else None

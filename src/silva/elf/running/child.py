"""The process that runs tools, from the side of the job: asked step by step, ended where it takes too much.

Its memory (with all it started) is looked at twenty times a second; so is the time. A child that was ended is replaced
by a new one for the next step.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from silva.elf.running.worker import Reply, Request
from silva.errors import Exit, SilvaError

_LOOK = 0.05
_PAGE = os.sysconf("SC_PAGE_SIZE")
_decode = msgspec.json.Decoder(Reply).decode


class Overrun(SilvaError):
    """A step took more than its job may: what was done before is kept."""

    code = Exit.INCOMPLETE


class Child:
    """One process for tools, started with the first request.

    Args:
        log: the file that takes what tools print.
    """

    def __init__(self, log: Path) -> None:
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None
        self.peak = 0
        """Bytes of memory at most during the last request."""

    def ask(self, request: Request, seconds: float, memory: int, tick: Callable[[], None]) -> Reply:
        """Have a step run.

        Args:
            request: the step.
            seconds: how long it may take.
            memory: bytes that the process and all it started may have.
            tick: called while it runs.

        Raises:
            Overrun: time or memory were spent, or the process died; it is gone.
        """
        process = self._running()
        assert process.stdin is not None and process.stdout is not None
        began = time.monotonic()
        self.peak = 0
        process.stdin.write(msgspec.json.encode(request) + b"\n")
        process.stdin.flush()
        said = bytearray()
        while not said.endswith(b"\n"):
            if select.select([process.stdout], [], [], _LOOK)[0]:
                part = os.read(process.stdout.fileno(), 1 << 16)
                if not part:
                    code = process.wait()
                    self.end()
                    raise Overrun(f"{request.tool}: its process died ({_why(code)}); see {self._log}")
                said += part
            tick()
            self.peak = max(self.peak, resident(process.pid))
            if self.peak > memory:
                self.end()
                raise Overrun(
                    f"{request.tool}: took {self.peak >> 20} MiB of memory where {memory >> 20} are granted; it was "
                    "ended, what was done before is kept: give more with --memory, or ask for fewer rows"
                )
            if not said.endswith(b"\n") and time.monotonic() - began > seconds:
                self.end()
                raise Overrun(
                    f"{request.tool}: the budget of time is spent ({seconds:.1f} s were left); it was ended, what "
                    "was done before is kept: resume with a larger --seconds"
                )
        return _decode(bytes(said))

    def end(self) -> None:
        """End the process and all it started."""
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            self.end()
            self._log.parent.mkdir(parents=True, exist_ok=True)
            with self._log.open("ab") as log:
                self._process = subprocess.Popen(
                    [sys.executable, "-P", "-m", "silva.elf.running.worker"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    start_new_session=True,
                )
        return self._process


def resident(pid: int) -> int:
    """Bytes of memory that a process and all its descendants hold."""
    total, waiting = 0, [pid]
    while waiting:
        each = waiting.pop()
        with contextlib.suppress(OSError, ValueError):
            total += int(Path(f"/proc/{each}/statm").read_text().split()[1]) * _PAGE
        for task in _tasks(each):
            with contextlib.suppress(OSError, ValueError):
                waiting += [int(word) for word in Path(f"/proc/{each}/task/{task}/children").read_text().split()]
    return total


def _tasks(pid: int) -> list[str]:
    try:
        return os.listdir(f"/proc/{pid}/task")  # noqa: PTH208 - names alone, twenty times a second
    except OSError:
        return []


def _why(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"

"""Assembly apart: a process of its own reads spans, so that the server's event loop keeps the interpreter to itself.

    Worker ── length, sessions (msgpack) ─▶ this process ─▶ assemble ── length, what was made ─▶ Worker

The child watches its standard input, a pipe from the server: however the server ends, the child is gone. What it had in
hand is made again by the next server; ids are derived, so nothing doubles.
"""

from __future__ import annotations

import os
import resource
import struct
import subprocess
import sys
import threading
from collections.abc import Sequence
from typing import IO

import msgspec

from silva.lake.ingest.assembling import Made, Session, Stage, assemble, failed
from silva.tree import Record

SECONDS = 120.0
"""A child that takes longer over one batch is ended."""
MEMORY = 4 << 30
_SIZE = struct.Struct("<Q")
_NICE = 10


class Begin(Record, frozen=True, kw_only=True):
    """The first message: which stages, with their settings."""

    stages: tuple[tuple[str, dict[str, object]], ...] = ()


class Ended(Exception):
    """The child ended over what it was given."""


class Worker:
    """The child, as the server sees it: started when first needed, and again after it ended. Blocking; one at a time.

    Args:
        stages: names and settings of the stages of assembly.
    """

    def __init__(self, stages: Sequence[tuple[str, dict[str, object]]] = ()) -> None:
        self._begin = Begin(stages=tuple(stages))
        self._process: subprocess.Popen[bytes] | None = None
        self._mutex = threading.Lock()

    def assemble(self, sessions: Sequence[Session]) -> list[Made]:
        """What is made of the sessions.

        Raises:
            Ended: the child ended, or took too long.
        """
        with self._mutex:
            process = self._started()
            assert process.stdin is not None and process.stdout is not None
            guard = threading.Timer(SECONDS, process.kill)
            guard.start()
            try:
                _write(process.stdin, msgspec.msgpack.encode(list(sessions)))
                answer = _read(process.stdout)
            except OSError:
                answer = None
            finally:
                guard.cancel()
            if answer is None:
                self._stop()
                raise Ended
            return msgspec.msgpack.decode(answer, type=list[Made])

    def close(self) -> None:
        """End the child."""
        with self._mutex:
            self._stop()

    def _stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    try:
                        pipe.close()
                    except OSError:  # what was still to be written finds nobody
                        continue
            process.wait()

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            self._stop()
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", "from silva.lake.ingest.worker import main; main()"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                start_new_session=True,
            )
            assert self._process.stdin is not None
            _write(self._process.stdin, msgspec.msgpack.encode(self._begin))
        return self._process


def main() -> None:
    """Assemble what standard input brings."""
    from silva.lake.ingest.stages import assembly_stages

    os.nice(_NICE)
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    source, target = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a stage prints is no answer
    begin = _read(source)
    if begin is None:
        return
    stages = assembly_stages(msgspec.msgpack.decode(begin, type=Begin).stages)
    while (data := _read(source)) is not None:
        made = [_made(each, stages) for each in msgspec.msgpack.decode(data, type=list[Session])]
        _write(target, msgspec.msgpack.encode(made))


def _made(session: Session, stages: Sequence[Stage]) -> Made:
    try:
        return assemble(session, stages)
    except (MemoryError, RecursionError) as error:
        return failed(session, f"{type(error).__name__} while it was read")
    except Exception as error:  # noqa: BLE001 - strangers' data, and stages of others: one session must not take the rest
        line = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        return failed(session, f"cannot be read: {line}")


def _write(pipe: IO[bytes], data: bytes) -> None:
    pipe.write(_SIZE.pack(len(data)) + data)
    pipe.flush()


def _read(pipe: IO[bytes]) -> bytes | None:
    head = pipe.read(_SIZE.size)
    if len(head) < _SIZE.size:
        return None
    size = _SIZE.unpack(head)[0]
    data = pipe.read(size)
    return data if len(data) == size else None

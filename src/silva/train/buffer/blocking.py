"""A `Buffer` without asyncio, for trainers that are plain loops.

call ─▶ an event loop in a thread of its own ─▶ the buffer ─▶ answer
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, TypeVar

from silva.train.buffer.buffer import Buffer
from silva.train.buffer.client import BufferClient
from silva.train.buffer.config import JobConfig
from silva.train.buffer.group import Admission, Delivery, Group, Receipt, Status, Withheld
from silva.train.buffer.jobs import Jobs

T = TypeVar("T")


class BlockingBuffer:
    """The methods of `Buffer`, blocking; may be called from several threads. Close it, or use it with `with`.

    Args:
        open_buffer: makes the buffer, in the loop it is used in.
    """

    def __init__(self, open_buffer: Callable[[], Coroutine[Any, Any, Buffer]]) -> None:
        self._jobs: Jobs | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="silva-buffer", daemon=True)
        self._thread.start()
        try:
            self._buffer = self._run(open_buffer())
        except BaseException:
            self._end()
            raise

    @classmethod
    def connect(cls, url: str, job: str, token: str, *, patience: float = 60.0) -> BlockingBuffer:
        """A job of a server; see `BufferClient`."""

        async def client() -> Buffer:
            return BufferClient(url, job, token, patience=patience)

        return cls(client)

    @classmethod
    def local(cls, folder: Path, job: str, terms: JobConfig) -> BlockingBuffer:
        """A job in this process, in a folder it holds alone.

        Raises:
            StoreError: the folder is held by another process, or cannot be used.
            Refused: the job was opened by other terms.
        """

        async def opened() -> Buffer:
            jobs.append(Jobs(folder))
            try:
                return jobs[0].open(job, terms)
            except BaseException:
                await jobs[0].close()
                raise

        jobs: list[Jobs] = []
        buffer = cls(opened)
        buffer._jobs = jobs[0]
        return buffer

    def __enter__(self) -> BlockingBuffer:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """See `Buffer.close`."""
        if self._thread.is_alive():
            try:
                self._run((self._jobs or self._buffer).close())
            finally:
                self._end()

    def permits(self) -> int:
        """See `Buffer.permits`."""
        return self._run(self._buffer.permits())

    def start(self, ids: Sequence[str], *, wait: float = 0.0) -> Admission:
        """See `Buffer.start`."""
        return self._run(self._buffer.start(ids, wait=wait))

    def abandon(self, ids: Sequence[str]) -> int:
        """See `Buffer.abandon`."""
        return self._run(self._buffer.abandon(ids))

    def put(self, group: Group, *, wait: float = 0.0) -> Receipt:
        """See `Buffer.put`."""
        return self._run(self._buffer.put(group, wait=wait))

    def take(self, after: int, count: int, *, wait: float = 0.0) -> list[Delivery]:
        """See `Buffer.take`."""
        return self._run(self._buffer.take(after, count, wait=wait))

    def commit(self, cursor: int, version: int | None = None, *, checkpointed: int | None = None) -> Status:
        """See `Buffer.commit`."""
        return self._run(self._buffer.commit(cursor, version, checkpointed=checkpointed))

    def rewind(self, cursor: int, version: int) -> Status:
        """See `Buffer.rewind`."""
        return self._run(self._buffer.rewind(cursor, version))

    def status(self) -> Status:
        """See `Buffer.status`."""
        return self._run(self._buffer.status())

    def withheld(self, after: int = 0, most: int = 100) -> list[Withheld]:
        """See `Buffer.withheld`."""
        return self._run(self._buffer.withheld(after, most))

    def read(self, name: str) -> Group:
        """See `Buffer.read`."""
        return self._run(self._buffer.read(name))

    def _run(self, call: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(call, self._loop).result()

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

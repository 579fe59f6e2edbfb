"""The journal: where a record becomes durable before anyone is told it is kept.

    append ──▶ frames (encoded by the caller) ──▶ queue ──▶ one writer thread: gather for the window, write, fdatasync
                                                             ├─▶ acknowledge the whole batch, one wake-up per event loop
                                                             └─▶ at 64 MB: seal the segment by rename, begin the next

A segment is `NNNNNNNNNN.open` while written and `NNNNNNNNNN.sealed` afterwards; numbers only grow. When a write fails
everyone waiting is told, what was half written is cut off, and the journal refuses further records until reopened: a
disk that once lost an `fdatasync` cannot be trusted to keep the next one in order.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

from silva.errors import StoreError
from silva.lake.durable import make_folder, refusal, refusals, sync_file, sync_folder
from silva.lake.frames import MAGIC

SEAL_BYTES = 64 << 20
"""A segment of this size is sealed."""
EARLY_BYTES, EARLY_SECONDS = 4 << 20, 3.0
"""A smaller one is sealed once it is so large and so old: a slow run is then compacted while it waits for its model,
not when it ends."""
log = logging.getLogger(__name__)

_Waiter = asyncio.Future[None] | Future[None]


class Journal:
    """The one writer of a lake's journal.

    Args:
        folder: where the segments are; made if missing.
        where: the lake's name in messages.
        number: number of the first segment to write, above every number used before.
        window: seconds to gather records before one write (0 to 0.02).
        seal_bytes: size at which a segment is sealed.
        sealed: called in the writer thread with the number of a segment just sealed.

    Raises:
        StoreError: the folder cannot be written.
    """

    def __init__(
        self,
        folder: Path,
        *,
        where: str,
        number: int,
        window: float = 0.005,
        seal_bytes: int = SEAL_BYTES,
        sealed: Callable[[int], None] = lambda number: None,
    ) -> None:
        self._folder, self._where, self._number = folder, where, number
        self._window, self._seal_bytes, self._sealed = max(0.0, min(window, 0.02)), seal_bytes, sealed
        self._queue: deque[tuple[bytes | None, asyncio.AbstractEventLoop | None, _Waiter]] = deque()
        self._wake = threading.Event()
        self._closing = False
        self._failure: str | None = None
        self._size, self._begun = 0, 0.0
        with refusals(where):
            make_folder(folder)
            self._descriptor = self._begin(number)
        self._thread = threading.Thread(target=self._work, name="silva-journal", daemon=True)
        self._thread.start()

    @property
    def failure(self) -> str | None:
        """Why the journal refuses records, or None while it takes them."""
        return self._failure

    def submit(self, data: bytes) -> asyncio.Future[None]:
        """Queue `data` (whole frames); the future is done once it is on disk.

        Raises:
            StoreError: an earlier write failed, or the journal is closed. The future raises it when this write fails.
        """
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = loop.create_future()
        self._put(data, loop, waiter)
        return waiter

    async def append(self, data: bytes) -> None:
        """Return once `data` (whole frames) is on disk.

        Raises:
            StoreError: it could not be written, or an earlier write failed, or the journal is closed.
        """
        await self.submit(data)

    def append_sync(self, data: bytes) -> None:
        """As `append`, blocking."""
        waiter: Future[None] = Future()
        self._put(data, None, waiter)
        waiter.result()

    def seal(self) -> None:
        """Seal the current segment if it holds anything; return once the next one is open."""
        waiter: Future[None] = Future()
        self._put(None, None, waiter)
        waiter.result()

    def close(self) -> None:
        """Write what is queued, seal, and end the thread. Further records are refused."""
        if not self._closing:
            self._closing = True
            self._wake.set()
        self._thread.join()

    def _put(self, data: bytes | None, loop: asyncio.AbstractEventLoop | None, waiter: _Waiter) -> None:
        if self._failure is not None:
            raise StoreError(self._failure)
        if self._closing:
            raise StoreError(f"lake {self._where}: is closed; open it again to write")
        self._queue.append((data, loop, waiter))
        if not self._wake.is_set():
            self._wake.set()
        if not self._thread.is_alive():  # closed between the check above and the append
            self._refuse_queued()

    def _work(self) -> None:
        while not (self._closing and not self._queue):
            self._wake.wait()
            if self._window and not self._closing:
                time.sleep(self._window)
            self._wake.clear()
            batch = [self._queue.popleft() for _ in range(len(self._queue))]
            self._commit(batch)
            if self._closing:
                self._wake.set()
        try:
            if self._failure is None:
                self._finish(begin=False)
            else:
                os.close(self._descriptor)
        except OSError as error:
            self._failure = str(refusal(self._where, error))
            log.error("%s", self._failure)
        finally:
            self._refuse_queued()

    def _refuse_queued(self) -> None:
        left = [self._queue.popleft() for _ in range(len(self._queue))]
        _acknowledge(left, self._failure or f"lake {self._where}: is closed; open it again to write")

    def _commit(self, batch: list[tuple[bytes | None, asyncio.AbstractEventLoop | None, _Waiter]]) -> None:
        if self._failure is None:
            data = b"".join(item[0] for item in batch if item[0] is not None)
            try:
                if data:
                    _write(self._descriptor, data)
                    os.fdatasync(self._descriptor)
                    self._size += len(data)
            except OSError as error:
                self._fail(error)
        _acknowledge([item for item in batch if item[0] is not None], self._failure)
        wants_seal = [item for item in batch if item[0] is None]
        if self._failure is None and (wants_seal or self._is_due()):
            try:
                self._finish(begin=True)
            except OSError as error:
                self._fail(error)
        _acknowledge(wants_seal, self._failure)

    def _is_due(self) -> bool:
        if self._size >= self._seal_bytes:
            return True
        return self._size >= EARLY_BYTES and time.monotonic() - self._begun >= EARLY_SECONDS

    def _fail(self, error: OSError) -> None:
        self._failure = str(refusal(self._where, error))
        log.error("%s", self._failure)
        try:
            os.ftruncate(self._descriptor, self._size)
            os.fdatasync(self._descriptor)
        except OSError as second:
            log.error("%s", refusal(self._where, second))

    def _begin(self, number: int) -> int:
        path = self._folder / f"{number:010d}.open"
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_APPEND, 0o644)
        try:
            _write(descriptor, MAGIC)
            os.fsync(descriptor)
            sync_folder(self._folder)
        except OSError:
            os.close(descriptor)
            path.unlink(missing_ok=True)
            raise
        self._number, self._size, self._begun = number, len(MAGIC), time.monotonic()
        return descriptor

    def _finish(self, *, begin: bool) -> None:
        path = self._folder / f"{self._number:010d}.open"
        if self._size == len(MAGIC):
            if not begin:
                os.close(self._descriptor)
                path.unlink()
            return
        number, descriptor = self._number, self._descriptor
        if begin:
            self._descriptor = self._begin(number + 1)
        os.close(descriptor)
        seal(path)
        self._sealed(number)


def seal(path: Path) -> Path:
    """Rename an open segment to sealed, durably; return its new name."""
    sync_file(path)
    target = path.with_suffix(".sealed")
    path.rename(target)
    sync_folder(path.parent)
    return target


def segments(folder: Path) -> dict[int, Path]:
    """The segments in `folder` by number, in order."""
    if not folder.is_dir():
        return {}
    found = (path for path in folder.iterdir() if path.suffix in (".open", ".sealed") and path.stem.isdigit())
    return {int(path.stem): path for path in sorted(found, key=lambda path: (int(path.stem), path.suffix))}


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _acknowledge(
    batch: list[tuple[bytes | None, asyncio.AbstractEventLoop | None, _Waiter]], failure: str | None
) -> None:
    by_loop: dict[asyncio.AbstractEventLoop, list[_Waiter]] = {}
    for _, loop, waiter in batch:
        if loop is None:
            _resolve([waiter], failure)
        else:
            by_loop.setdefault(loop, []).append(waiter)
    for loop, waiters in by_loop.items():
        try:
            loop.call_soon_threadsafe(_resolve, waiters, failure)
        except RuntimeError:  # the loop is closed: nobody waits there any more
            log.debug("an event loop closed before its records were acknowledged")


def _resolve(waiters: list[_Waiter], failure: str | None) -> None:
    for waiter in waiters:
        if waiter.done():  # the caller was cancelled; its record is kept all the same
            continue
        if failure is None:
            waiter.set_result(None)
        else:
            waiter.set_exception(StoreError(failure))

"""The journal: where a record becomes durable before anyone is told it is kept.

    append ──▶ frames (encoded by the caller) ──▶ queue ──▶ one writer thread: gather for the window, write, fdatasync
                 │                                           ├─▶ acknowledge the whole batch, one wake-up per event loop
                 └─ at once, on a quick disk: written here   └─▶ at 64 MB: seal the segment, begin the next

A segment is `NNNNNNNNNN.open` while written and `NNNNNNNNNN.sealed` afterwards; numbers only grow. When a write fails
everyone waiting is told, what was half written is cut off, and the journal refuses further records until reopened: a
disk that once lost an `fdatasync` cannot be trusted to keep the next one in order.

To hand a batch to the thread and be woken by it costs an event loop more than a quick disk takes (a third of a
millisecond, with the interpreter's lock going to and fro). Who has nothing else to do may have it written in place.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path

from silva.errors import StoreError
from silva.lake.durable import make_folder, refusal, refusals
from silva.lake.segment import Segment

SEAL_BYTES = 64 << 20
"""A segment of this size is sealed."""
EARLY_BYTES, EARLY_SECONDS = 4 << 20, 3.0
"""A smaller one is sealed once it is so large and so old: a slow run is then compacted while it waits for its model,
not when it ends."""
QUICK = 0.0005
"""A disk is quick that has lately taken fewer seconds than this to make a batch durable."""
log = logging.getLogger(__name__)

_Waiter = asyncio.Future[None] | Future[None]
_Queued = tuple[Sequence[bytes] | None, asyncio.AbstractEventLoop | None, _Waiter]
"""What is to be written (None: seal what is there), and who is told, where."""


class Journal:
    """The one writer of a lake's journal.

    Args:
        folder: where the segments are; made if missing.
        where: the lake's name in messages.
        number: number of the first segment to write, above every number used before.
        window: seconds to gather records before one write (0 to 0.02).
        seal_bytes: size at which a segment is sealed.
        sealed: called in the writer thread with the number of a segment just sealed.
        lapsed: why nothing may be acknowledged any more, or None while it may; asked once a batch is on disk, before
            anyone is told.

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
        lapsed: Callable[[], str | None] = lambda: None,
    ) -> None:
        self._folder, self._where = folder, where
        self._window, self._seal_bytes, self._sealed = max(0.0, min(window, 0.02)), seal_bytes, sealed
        self._lapsed = lapsed
        self._queue: deque[_Queued] = deque()
        self._wake = threading.Event()
        self._closing = False
        self._failure: str | None = None
        self._seconds = 1.0
        self._writing = threading.Lock()
        with refusals(where):
            make_folder(folder)
            self._segment = Segment(folder, number)
        self._thread = threading.Thread(target=self._work, name="silva-journal", daemon=True)
        self._thread.start()

    @property
    def failure(self) -> str | None:
        """Why the journal refuses records, or None while it takes them."""
        return self._failure or self._lapsed()

    def submit(
        self,
        data: bytes | Sequence[bytes],
        *,
        at_once: bool = False,
        meanwhile: Callable[[], object] | None = None,
    ) -> asyncio.Future[None]:
        """Queue `data` (whole frames); the future is done once it is on disk.

        Args:
            data: what to write, in one piece or in parts that follow each other (`frames.parts`); with no parts, the
                future is done once all that was submitted before is on disk.
            at_once: the event loop has little else to do, so on a quick disk it is written before this returns.
            meanwhile: called once, while the data is on its way; it must not raise.

        Raises:
            StoreError: an earlier write failed, or the journal is closed. The future raises it when this write fails.
        """
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = loop.create_future()
        parts = [data] if isinstance(data, bytes) else data
        if not (at_once and parts and self._written_here(parts, waiter, meanwhile)):
            self._put(parts, loop, waiter)
            if meanwhile is not None:
                meanwhile()
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
        self._put([data], None, waiter)
        waiter.result()

    def reserve(self) -> None:
        """Return once the disk has given room for batches to come.

        Raises:
            StoreError: it gives none, or an earlier write failed, or the journal is closed.
        """
        with self._writing:
            if self._failure is not None or self._closing:
                raise StoreError(self._failure or f"lake {self._where}: is closed; open it again to write")
            with refusals(self._where):
                self._segment.reserve()

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

    def _put(self, data: Sequence[bytes] | None, loop: asyncio.AbstractEventLoop | None, waiter: _Waiter) -> None:
        if self._failure is not None:
            raise StoreError(self._failure)
        if self._closing:
            raise StoreError(f"lake {self._where}: is closed; open it again to write")
        self._queue.append((data, loop, waiter))
        if not self._wake.is_set():
            self._wake.set()
        if not self._thread.is_alive():  # closed between the check above and the append
            self._refuse_queued()

    def _written_here(
        self, data: Sequence[bytes], waiter: asyncio.Future[None], meanwhile: Callable[[], object] | None
    ) -> bool:
        """Write in this thread, if that is soon done and nobody's turn is before."""
        if self._seconds > QUICK or self._window or not self._writing.acquire(blocking=False):
            return False
        try:
            if self._queue or self._closing or self._failure is not None:
                return False
            self._write(data, meanwhile)
            if self._is_due() or self._segment.is_short:
                self._wake.set()
        finally:
            self._writing.release()
        _resolve([waiter], self._failure)
        return True

    def _work(self) -> None:
        try:
            self._serve()
        except Exception as error:
            # Whatever ends this thread, nobody may go on waiting for it: they are told, and so is who comes next.
            line = " ".join(f"{type(error).__name__}: {error}".split())[:200]
            self._failure = (
                f"lake {self._where}: its journal ended ({line}); open the lake again (all acknowledged is kept)"
            )
            log.exception("%s", self._failure)
        self._refuse_queued()

    def _serve(self) -> None:
        while not (self._closing and not self._queue):
            self._wake.wait()
            if self._window and not self._closing:
                time.sleep(self._window)
            self._wake.clear()
            with self._writing:
                batch = [self._queue.popleft() for _ in range(len(self._queue))]
                try:
                    self._commit(batch)
                except BaseException:
                    self._queue.extendleft(reversed(batch))  # who of them was not told yet is told why
                    raise
            if self._closing:
                self._wake.set()
        with self._writing:
            self._end()

    def _end(self) -> None:
        try:
            if self._failure is not None:
                self._segment.close()
            elif self._segment.finish():
                self._sealed(self._segment.number)
        except OSError as error:
            self._fail(error)

    def _refuse_queued(self) -> None:
        left = [self._queue.popleft() for _ in range(len(self._queue))]
        _acknowledge(left, self._failure or f"lake {self._where}: is closed; open it again to write")

    def _commit(self, batch: list[_Queued]) -> None:
        data = [part for item in batch if item[0] is not None for part in item[0]]
        if self._failure is None and data:
            self._write(data)
        _acknowledge([item for item in batch if item[0] is not None], self._failure)
        wants_seal = [item for item in batch if item[0] is None]
        if self._failure is None:
            try:
                if wants_seal or self._is_due():
                    self._next()
                elif not self._queue:
                    self._segment.lay_ahead()
            except OSError as error:
                self._fail(error)
        _acknowledge(wants_seal, self._failure)

    def _write(self, data: Sequence[bytes], meanwhile: Callable[[], object] | None = None) -> None:
        began, before = time.perf_counter(), self._segment.size
        try:
            self._segment.write(data, meanwhile)
        except OSError as error:
            self._fail(error)
        else:
            self._failure = self._lapsed()
        if self._failure is not None:
            try:
                self._segment.cut(before)
            except OSError as second:
                log.error("%s", refusal(self._where, second))
        self._seconds += (time.perf_counter() - began - self._seconds) / 8

    def _is_due(self) -> bool:
        size = self._segment.size
        return size >= self._seal_bytes or (
            size >= EARLY_BYTES and time.monotonic() - self._segment.begun >= EARLY_SECONDS
        )

    def _next(self) -> None:
        """Seal the segment, if it holds anything, once the next one is there to be written."""
        if self._segment.empty:
            return
        full, self._segment = self._segment, Segment(self._folder, self._segment.number + 1)
        full.finish()
        self._sealed(full.number)

    def _fail(self, error: OSError) -> None:
        self._failure = str(refusal(self._where, error))
        log.error("%s", self._failure)


def _acknowledge(batch: list[_Queued], failure: str | None) -> None:
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

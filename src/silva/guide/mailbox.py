"""The mailbox of a run: a file to which anybody on this machine appends, and from which the engine reads.

    writers ─▶ lock, mend a torn end, append one line, fsync ─▶ FOLDER/RUN.words ─▶ reader: what lies beyond its cursor

A word is said once its line is on disk; a process that is killed while it writes leaves a line without its end, which
the next writer cuts off and no reader takes. Nobody has to run for words to be kept: not the agent, not a console. A
reader that asks often pays for one `stat` each time.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from silva.errors import StoreError, UsageError
from silva.guide.word import Word

_CLOSED = b'{"closed":true}\n'
_decode = msgspec.json.Decoder(Word).decode
_encode = msgspec.json.Encoder().encode


def name_of(run_id: str) -> str:
    """What a run's files are named after: its own name may hold what a file's may not."""
    return hashlib.sha256(run_id.encode()).hexdigest()[:24]


class Mailbox:
    """One run's words.

    Args:
        folder: where mailboxes of a lake lie; made when something is said.
        run_id: the run.
    """

    def __init__(self, folder: str | Path, run_id: str) -> None:
        self.run_id = run_id
        self.path = Path(folder) / f"{name_of(run_id)}.words"
        self._cursor = 0
        self._known: set[str] = set()

    def say(self, *words: Word) -> None:
        """Append words, durably: all of them or, should the disk fail, none.

        Raises:
            UsageError: a word is for another run, or the run has ended.
            StoreError: the file cannot be written.
        """
        for each in words:
            if each.run_id != self.run_id:
                raise UsageError(f"this is the mailbox of run {self.run_id}, not of {each.run_id}")
        lines = b"".join(_encode(each) + b"\n" for each in words)
        with self._opened() as file:
            end = _mended(file)
            if _ends_closed(file, end):
                raise UsageError(f"run {self.run_id} has ended: nobody is there to hear it")
            self._append(file, end, lines)

    def close(self) -> None:
        """The run has ended: whatever is said from now on is refused. A run to which nothing was said needs no file:
        its record tells that it has ended."""
        if not self.path.exists():
            return
        with self._opened() as file:
            end = _mended(file)
            if not _ends_closed(file, end):
                self._append(file, end, _CLOSED)

    def reopen(self) -> None:
        """The run goes on: words are taken again."""
        if not self.path.exists():
            return
        with self._opened() as file:
            end = _mended(file)
            if _ends_closed(file, end):
                os.ftruncate(file, end - len(_CLOSED))
                os.fsync(file)

    @property
    def closed(self) -> bool:
        """Whether its run has ended."""
        if not self.path.exists():
            return False
        with self._opened() as file:
            return _ends_closed(file, _mended(file))

    def read(self) -> list[Word]:
        """Every word that was said since the last call, in order; all of them at first. One said twice comes once.

        Raises:
            StoreError: the file cannot be read, or a line of it is damaged.
        """
        try:
            if self.path.stat().st_size <= self._cursor:
                return []
            with self.path.open("rb") as file:
                file.seek(self._cursor)
                data = file.read()
        except FileNotFoundError:
            return []
        except OSError as error:
            raise StoreError(f"mailbox {self.path.name}: cannot be read ({error.strerror})") from error
        whole = data[: data.rfind(b"\n") + 1]
        found: list[Word] = []
        for line in whole.splitlines(keepends=True):
            if line == _CLOSED:
                break  # may be taken back: read again
            self._cursor += len(line)
            try:
                one = _decode(line)
            except msgspec.MsgspecError as error:
                raise StoreError(f"mailbox {self.path.name}: a damaged line ({error}); move the file away") from error
            if one.id not in self._known:
                self._known.add(one.id)
                found.append(one)
        return found

    @contextlib.contextmanager
    def _opened(self) -> Iterator[int]:
        """The file, held alone."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StoreError(f"mailbox {self.path}: cannot be opened ({error.strerror})") from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield file
        finally:
            os.close(file)

    def _append(self, file: int, end: int, lines: bytes) -> None:
        try:
            view = memoryview(lines)
            while view:
                view = view[os.write(file, view) :]
            os.fsync(file)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(file, end)
            raise StoreError(f"mailbox {self.path.name}: nothing was said ({error.strerror})") from error


def _mended(file: int) -> int:
    """Cut off a line that was never finished; the size after."""
    size = os.fstat(file).st_size
    if size and os.pread(file, 1, size - 1) != b"\n":
        at = size
        while at:
            start = max(0, at - 65536)
            found = os.pread(file, at - start, start).rfind(b"\n")
            if found >= 0:
                at = start + found + 1
                break
            at = start
        os.ftruncate(file, at)
        size = at
    return size


def _ends_closed(file: int, size: int) -> bool:
    return size >= len(_CLOSED) and os.pread(file, len(_CLOSED), size - len(_CLOSED)) == _CLOSED

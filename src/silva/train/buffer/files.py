"""The files of one job: a journal of events, and one file for each group.

    JOB/job.json                  its terms
    JOB/journal/NNNNNNNNNN.open   events, framed; `.sealed` when full (the lake's journal)
    JOB/groups/XX/….group         a group, framed; there before its event, gone after its release

Payloads are not in the journal, so that it stays small (about 300 bytes a group) and is kept whole: it says what was
handed out, in which order and at which version.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Collection, Iterator
from pathlib import Path

import msgspec

from silva.errors import StoreError
from silva.lake.durable import write_whole
from silva.lake.frames import MAGIC, frame, scan, whole
from silva.lake.journal import Journal
from silva.lake.recovery import inspect, recover
from silva.lake.segment import segments
from silva.train.buffer.events import Event, read, write
from silva.train.buffer.group import Group

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[int, Group]).decode


class Files:
    """A job's folder, open for writing. One at a time: the caller holds the lock.

    Args:
        folder: the job's.
        name: the job's, for messages.

    Raises:
        StoreError: it cannot be read or written, or is damaged.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self._folder, self._name = folder, name
        try:
            number = recover(folder / "journal", name) + 1
            self.events = list(kept_events(folder))
            self._journal = Journal(folder / "journal", where=name, number=number, window=0.0)
        except (StoreError, OSError) as error:
            raise self._refusal(error) from error

    @property
    def failed(self) -> bool:
        """Whether a write failed: nothing more is taken until the job is opened again."""
        return self._journal.failure is not None

    def submit(self, event: Event) -> asyncio.Future[None]:
        """Queue an event; await `settled` of the future.

        Raises:
            StoreError: an earlier write failed.
        """
        try:
            return self._journal.submit(frame(write(event)))
        except StoreError as error:
            raise self._refusal(error) from error

    async def settled(self, on_its_way: asyncio.Future[None]) -> None:
        """Return once it is on disk, whether or not the caller is still wanted.

        Raises:
            StoreError: it is not.
        """
        try:
            await asyncio.shield(on_its_way)
        except StoreError as error:
            raise self._refusal(error) from error

    async def write_group(self, group: Group) -> None:
        """Write a group's file, durably.

        Raises:
            StoreError: the disk refuses; nothing is left of it.
        """
        try:
            await asyncio.to_thread(lambda: write_whole(self._path(group.id), MAGIC + frame(_encode((1, group)))))
        except OSError as error:
            raise self._refusal(error) from error

    async def read_group(self, name: str) -> Group:
        """Read a group's file.

        Raises:
            StoreError: it is not there, or damaged.
        """
        return await asyncio.to_thread(self._read, name)

    async def drop_groups(self, names: Collection[str]) -> None:
        """Remove the files of released groups."""
        if names:
            await asyncio.to_thread(lambda: [self._path(name).unlink(missing_ok=True) for name in names])

    def sweep(self, names: Collection[str], *, remove: bool) -> int:
        """See that each of these groups has its file; remove (if told to) other files, which a kill between two writes
        leaves; return how many went.

        Raises:
            StoreError: the file of one of these is missing.
        """
        wanted = {self._path(name): name for name in names}
        present = set((self._folder / "groups").glob("*/*")) | set((self._folder / "groups").glob("*/.*"))
        for path in wanted:
            if path not in present:
                raise StoreError(
                    f"buffer job {self._name}: group {wanted[path]} has no file; restore {path.name} from a copy"
                )
        extra = present - set(wanted) if remove else set()
        for path in extra:
            path.unlink(missing_ok=True)
        return len(extra)

    def close(self) -> None:
        """Write what is queued and let go."""
        self._journal.close()

    def _path(self, name: str) -> Path:
        digest = hashlib.sha256(name.encode()).hexdigest()[:40]
        return self._folder / "groups" / digest[:2] / f"{digest}.group"

    def _read(self, name: str) -> Group:
        try:
            return load_group(self._path(name))
        except (StoreError, OSError) as error:
            raise self._refusal(error) from error

    def _refusal(self, error: StoreError | OSError) -> StoreError:
        # The journal is the lake's and speaks of a lake: what happened is kept, what to do is the buffer's own.
        text = str(error).removeprefix(f"lake {self._name}: ").split(";")[0]
        if isinstance(error, OSError):
            text = error.strerror or str(error)
        advice = "restore it from a copy" if "damaged" in text else "mend it; what was acknowledged is kept"
        return StoreError(f"buffer job {self._name}: {text}; {advice}")


def load_group(path: Path) -> Group:
    """The group in a file.

    Raises:
        StoreError: the file is damaged.
        OSError: it cannot be read.
    """
    data = path.read_bytes()
    found = scan(data, len(MAGIC)) if data.startswith(MAGIC) else None
    if found is None or len(found.payloads) != 1 or found.damage:
        raise StoreError(f"{path.name} is damaged")
    try:
        return _decode(found.payloads[0])[1]
    except msgspec.DecodeError as error:
        raise StoreError(f"{path.name} is damaged ({error})") from error


def kept_events(folder: Path) -> Iterator[Event]:
    """The events of a job, in order, without changing anything; also while another process writes them.

    Raises:
        StoreError: a segment is damaged, or from a newer Silva.
        OSError: it cannot be read.
    """
    for number, path in segments(folder / "journal").items():
        if path.suffix == ".open":
            payloads, _ = whole(path.read_bytes(), len(MAGIC))
        else:
            found = inspect(path)
            if found is not None and found.damage:
                raise StoreError(f"journal segment {number} is damaged at byte {found.damage[0].start}")
            payloads = [] if found is None else found.payloads
        for payload in payloads:
            yield read(payload)

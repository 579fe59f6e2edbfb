"""The content-addressed store: checkpoints as lists of files, each file's content kept once.

    <folder>/ID.json            a checkpoint
    <folder>/ID.list            its entries: path, kind, mode, size, digest or link
    <folder>/objects/ab/cdef…   contents, named by their BLAKE2b digest

It needs nothing of the kernel, goes to another machine as it is, and shares what is equal between checkpoints. What has
not changed since the last look (by inode, size and times) is not read again.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import stat
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from silva.errors import StoreError
from silva.sandbox.layer_digest import content, extended, extent
from silva.sandbox.layers import Snapshot, flush, listed, made
from silva.sandbox.owner import remove, write
from silva.sandbox.sharing import Removed, Sharing, away
from silva.sandbox.walk import TooDeep, readable, walked
from silva.tree import Record

KIND = "contents"
"""The kind of these checkpoints; other kinds may stand in the same folder."""


_HOLLOW = "h-"
"""What the digest of a file with holes begins with."""
_NOTHING = bytes(1 << 20)
_BLOCK = 1 << 16
"""Bytes that a file's blocks may lack without its having holes worth the name."""
_LONGEST = 3500
"""Bytes of a path below the folder: the kernel takes 4,095 with what is above it."""


class Entry(Record, frozen=True, kw_only=True):
    """One file, folder, link, or device 0, 0 (by which overlays say that something is gone, and their makers may).

    Attributes:
        content: the digest of a file, the target of a link; for a `name`, the path of the file that it is another of.
        attributes: the extended ones.
    """

    path: str
    kind: str
    mode: int
    size: int = 0
    content: str = ""
    attributes: dict[str, bytes] = msgspec.field(default_factory=dict)


class Contents:
    """A store of checkpoints by content. `durable`: a checkpoint is on disk before it is answered."""

    def __init__(self, folder: Path, *, durable: bool = False) -> None:
        self.folder = folder.absolute()
        self._durable = durable
        self._objects = self.folder / "objects"
        self._objects.mkdir(parents=True, exist_ok=True)
        self.sharing = Sharing(self.folder)
        self._seen: dict[tuple[int, int, int, int], str] = {}

    def keep(self, source: Path, label: str, base: str = "", note: str = "") -> Snapshot:
        """Keep what a folder holds; pipes, sockets and other devices are left out. `note`: why no processes are in it.

        Raises:
            StoreError: it cannot be read or kept.
        """
        try:
            # A content that another checkpoint has is not written again, so that one must not go meanwhile.
            with self.sharing.adding():
                entries = self._entries(source)
                snapshot = Snapshot(
                    id=secrets.token_hex(8),
                    label=label,
                    layers=(),
                    base=base,
                    at=time.time(),
                    kind=KIND,
                    note=note,
                    size=sum(entry.size for entry in entries),
                )
                listing = self.folder / f"{snapshot.id}.list"
                listing.write_bytes(msgspec.json.encode(entries))
                write(self.folder / f"{snapshot.id}.json", snapshot)
                if self._durable:
                    flush(self.folder)
        except OSError as error:
            raise StoreError(f"a checkpoint cannot be kept in {self.folder}: {error.strerror or error}") from error
        return snapshot

    def find(self, id: str) -> Snapshot:
        """A checkpoint.

        Raises:
            StoreError: it is gone or damaged.
        """
        path = self.folder / f"{id}.json"
        if not id.isalnum() or not path.is_file():
            raise StoreError(f"there is no checkpoint {id!r}: it was never made here, or its owner has removed it")
        try:
            snapshot = msgspec.json.decode(path.read_bytes(), type=Snapshot)
        except msgspec.DecodeError as error:
            raise StoreError(f"checkpoint {id} is damaged: {error}") from error
        if snapshot.kind != KIND:
            raise StoreError(
                f"checkpoint {id} is of another kind than those that can be kept here: silva sandbox capabilities"
            )
        for entry in self._listed(id):
            if entry.kind == "file" and not self._place(entry.content).is_file():
                raise StoreError(f"checkpoint {id} is damaged: the content of {entry.path} is gone")
        return snapshot

    def list(self) -> list[Snapshot]:
        """Every checkpoint, oldest first."""
        return listed(self.folder)

    def bring_back(self, id: str, target: Path, user: int | None = None) -> None:
        """Make `target`, which must be empty or absent, what was kept; every content is compared with its digest.

        Args:
            id: the checkpoint.
            target: the folder.
            user: whom the files are to belong to; this process's user when left out.

        Raises:
            StoreError: the checkpoint is gone or damaged.
        """
        try:
            with self.sharing.adding():  # what it needs must not go meanwhile
                self._brought_back(id, target, user)
        except OSError as error:
            raise StoreError(f"checkpoint {id} cannot be brought back: {error.strerror or error}") from error

    def forget(self, id: str) -> None:
        """Remove a checkpoint, and the contents no other needs."""
        self.collect(lambda snapshot: snapshot.id == id)

    def collect(
        self, doomed: Callable[[Snapshot], bool], *, before: float = float("inf"), dry: bool = False
    ) -> Removed:
        """Remove the checkpoints that `doomed` says, and the contents that no other needs.

        Args:
            doomed: whether a checkpoint is to go.
            before: seconds since 1970; nothing that was made later is touched.
            dry: only say what would go.

        Raises:
            StoreError: the folder cannot be locked, or the list of a checkpoint that stays cannot be read: what it
                needs is not known then, and nothing is removed.
        """
        with self.sharing.removing():
            every = [each for each in self.list() if each.kind == KIND]
            going = [each for each in every if each.at < before and doomed(each)]
            gone = {each.id for each in going}
            left = {each.id for each in every} - gone
            kept = {entry.content for id in left for entry in self._listed(id)}
            objects = [
                path
                for path in (*self._objects.glob("*/*"), *self._objects.glob(".*"))
                if path.parent.name + path.name not in kept and made(path) < before
            ]
            lists = [path for path in self.folder.glob("*.list") if path.stem not in left and made(path) < before]
            found = Removed(
                checkpoints=len(going),
                contents=len(objects),
                bytes=sum(path.lstat().st_size for path in objects),
                young=sum(each.at >= before and doomed(each) for each in every),
            )
            paths = [self.folder / f"{each.id}.json" for each in going]
            aside = None if dry else away([*paths, *lists, *objects], self.folder)
        self._seen.clear()
        if aside is not None:
            remove(aside)
        return found

    def _brought_back(self, id: str, target: Path, user: int | None) -> None:
        entries = self._listed(id)
        for entry in entries:
            path = target / entry.path
            if entry.kind == "folder":
                path.mkdir(parents=True, exist_ok=True)
            elif entry.kind == "link":
                path.symlink_to(entry.content)
            elif entry.kind == "name":
                os.link(target / entry.content, path, follow_symlinks=False)
            elif entry.kind == "device":
                os.mknod(path, stat.S_IFCHR | entry.mode, 0)
            elif self._taken_back(entry, path) != entry.content:
                raise StoreError(f"checkpoint {id} is damaged: the content of {entry.path} is not what was kept")
            for name, value in entry.attributes.items():
                os.setxattr(path, name, value, follow_symlinks=False)
            if user is not None:
                os.chown(path, user, user, follow_symlinks=False)
        for entry in reversed(entries):  # a folder that may not be written gets its mode last
            if entry.kind not in ("link", "name"):
                (target / entry.path).chmod(entry.mode)

    def _taken_back(self, entry: Entry, path: Path) -> str:
        return _copied(self._place(entry.content), path, hollow=entry.content.startswith(_HOLLOW))

    def _listed(self, id: str) -> list[Entry]:
        try:
            return msgspec.json.decode((self.folder / f"{id}.list").read_bytes(), type=list[Entry])
        except (OSError, msgspec.DecodeError) as error:
            raise StoreError(f"checkpoint {id} is damaged: its list of files is gone or broken") from error

    def _place(self, digest: str) -> Path:
        return self._objects / digest[:2] / digest[2:]

    def _entries(self, source: Path) -> list[Entry]:
        found = [Entry(path=".", kind="folder", mode=stat.S_IMODE(source.stat().st_mode))]
        names: dict[tuple[int, int], str] = {}
        for name, reached, about in walked(source):
            path, mode = name[1:], stat.S_IMODE(about.st_mode)
            if len(os.fsencode(path)) > _LONGEST:
                raise TooDeep
            if stat.S_ISDIR(about.st_mode):
                found.append(Entry(path=path, kind="folder", mode=mode, attributes=extended(reached)))
                continue
            first = names.setdefault((about.st_dev, about.st_ino), path) if about.st_nlink > 1 else path
            if stat.S_ISCHR(about.st_mode) and about.st_rdev == 0:
                found.append(Entry(path=path, kind="device", mode=mode))
            elif stat.S_ISLNK(about.st_mode):
                found.append(Entry(path=path, kind="link", mode=mode, content=os.readlink(reached)))  # noqa: PTH115
            elif stat.S_ISREG(about.st_mode) and first != path:
                found.append(Entry(path=path, kind="name", mode=mode, content=first))
            elif stat.S_ISREG(about.st_mode):
                digest, attributes = self._taken(Path(reached), about), extended(reached)
                entry = Entry(
                    path=path, kind="file", mode=mode, size=about.st_size, content=digest, attributes=attributes
                )
                found.append(entry)
        return found

    def _taken(self, path: Path, about: os.stat_result) -> str:
        key = (about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns)
        known = self._seen.get(key)
        if known is not None:
            return known
        new = self._objects / f".{secrets.token_hex(6)}"
        digest = _copied(path, new, hollow=about.st_blocks * 512 + _BLOCK < about.st_size)
        place = self._place(digest)
        if place.exists():
            new.unlink()
        else:
            place.parent.mkdir(exist_ok=True)
            new.rename(place)
        self._seen[key] = digest
        return digest


def _copied(source: Path, target: Path, *, hollow: bool) -> str:
    """Copy a file, its holes as holes; the digest of what was read: `hollow`, that for which holes need not be read."""
    found = hashlib.blake2b(digest_size=16)
    with readable(str(source)), source.open("rb", buffering=0) as reading, target.open("wb", buffering=0) as writing:
        size, at = os.fstat(reading.fileno()).st_size, 0
        while at < size:
            start, end = extent(reading.fileno(), at, size)
            while at < start and not hollow:
                found.update(_NOTHING[: start - at])
                at += min(len(_NOTHING), start - at)
            at = start
            while at < end and (part := os.pread(reading.fileno(), min(len(_NOTHING), end - at), at)):
                found.update(b"" if hollow else part)
                os.pwrite(writing.fileno(), part, at)
                at += len(part)
            if at < end:
                break  # it became shorter meanwhile
        writing.truncate(at)
    return _HOLLOW + content(str(target)).hex() if hollow else found.hexdigest()


def copy_base(base: Path, target: Path) -> None:
    """Copy a folder's contents, links as links, special files left out. Raises OSError."""

    def special(folder: str, names: list[str]) -> list[str]:
        kinds = {name: Path(folder, name).lstat().st_mode for name in names}
        plain = (stat.S_ISREG, stat.S_ISDIR, stat.S_ISLNK)
        return [name for name, mode in kinds.items() if not any(kind(mode) for kind in plain)]

    shutil.copytree(base, target, symlinks=True, ignore=special, dirs_exist_ok=True)

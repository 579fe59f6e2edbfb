"""Overlay layers: what a sandbox changed, and the checkpoints it can come back to.

    <folder>/ID.json        a checkpoint: its label, the layers it rests on (oldest first), what lies below them all
    <folder>/layers/L/      one layer: what changed between two checkpoints; `workspace/` and `rest/`

Several processes may use one folder (`silva.sandbox.sharing`): nothing is removed while another adds or rests on it.

A layer never changes once it is here, so that any number of sandboxes share it: a fork costs two empty folders. Its
digest covers names, kinds, modes, contents, links and the overlay's own marks, and is compared at every restore
(`silva.sandbox.layer_digest`).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import secrets
import shutil
import stat
import subprocess
import time
from collections.abc import Callable, Collection
from pathlib import Path

import msgspec

from silva.errors import StoreError
from silva.sandbox.capabilities import Fidelity
from silva.sandbox.layer_digest import Compared, digest_of, opaque, standing
from silva.sandbox.owner import remove, write
from silva.sandbox.sharing import Removed, Sharing, away
from silva.sandbox.walk import blocks
from silva.tree import Record

PLACES = ("workspace", "rest")
"""What a sandbox may write: its workspace; its home and scratch folders."""
DEEPEST = 24
"""Layers below one sandbox; more are merged, for every look-up asks each of them."""
_MOST = 400
"""Layers that the kernel mounts above each other (it takes 500)."""

KIND = "overlay"
"""The kind of these checkpoints; other kinds may stand in the same folder."""


class Layer(Record, frozen=True, kw_only=True):
    """A layer, and the digest of what it holds."""

    name: str
    digest: str


class Snapshot(Record, frozen=True, kw_only=True):
    """A checkpoint.

    Attributes:
        id: its name.
        label: what its maker called it.
        layers: oldest first.
        base: the folder below them all, "" for none.
        at: when, seconds since 1970.
        kind: how it is kept.
        fidelity: what coming back to it brings back.
        processes: where its processes are written down, if they are: a folder among the layers.
        note: why they are not, where that was asked for; or what of them is not brought back.
        size: bytes of its newest layer's files.
        plain: whether its one layer holds devices or attributes that an overlay would take for marks of its own and
            that its programs made: it is copied then, never mounted.
        base_was: what told the state of the base (`layer_digest.standing`); "" where nobody looked.
    """

    id: str
    label: str
    layers: tuple[Layer, ...]
    base: str = ""
    at: float = 0.0
    kind: str = KIND
    fidelity: str = "files"
    processes: Layer | None = None
    note: str = ""
    size: int = 0
    plain: bool = False
    base_was: str = ""


Take = Callable[[Path, Path], None]
"""Copies what a sandbox wrote to the first folder and writes its processes down in the second; both are to be made."""


class Layers:
    """The layers and checkpoints of one folder. `durable`: a checkpoint is on disk before it is answered."""

    def __init__(self, folder: Path, *, durable: bool = False) -> None:
        self.folder = folder.absolute()  # the fork server, which mounts them, stands elsewhere
        self._durable = durable
        self.stack = self.folder / "layers"
        self.stack.mkdir(parents=True, exist_ok=True)
        self.sharing = Sharing(self.folder)
        self._compared = Compared()

    def adopt(
        self,
        top: Path,
        label: str,
        below: tuple[Layer, ...],
        base: str,
        overlays: Collection[str] = (),
        *,
        copy: bool,
        take: Take | None = None,
        note: str = "",
    ) -> Snapshot:
        """Make what `top` holds a layer, by moving it or (its programs going on to use it) by copying, and keep the
        checkpoint.

        Args:
            top: what was written.
            label: what its maker calls it.
            below: the layers it rests on.
            base: the folder below them all, "" for none.
            overlays: which of its places are an overlay's: the marks there are the kernel's.
            copy: whether `top` stays.
            take: copies `top` and writes its programs down besides; nothing of either stays when it raises.
            note: why there are no processes in it, or what of them is not brought back.

        Raises:
            StoreError: it cannot be kept; `top` is as it was.
        """
        # Until the checkpoint names it, nothing but the lock tells a new layer from one that nobody needs.
        with self.sharing.adding():
            return self._adopted(top, label, below, base, overlays, copy, take, note)

    def find(self, id: str) -> Snapshot:
        """A checkpoint, its layers compared with their digests.

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
        for layer in (*snapshot.layers, *([snapshot.processes] if snapshot.processes else [])):
            place = self.stack / layer.name
            if not place.is_dir():
                raise StoreError(f"checkpoint {id} is damaged: its layer {layer.name} is gone")
            if not self._compared.same(place, layer.digest):
                raise StoreError(f"checkpoint {id} is damaged: its layer {layer.name} is not what was kept")
        if snapshot.base and not Path(snapshot.base).is_dir():
            raise StoreError(f"checkpoint {id} rests on {snapshot.base}, which is gone")
        if snapshot.base_was and standing(Path(snapshot.base)) != snapshot.base_was:
            raise StoreError(f"checkpoint {id} rests on {snapshot.base}, which has been changed since")
        return snapshot

    def list(self) -> list[Snapshot]:
        """Every checkpoint, oldest first."""
        return listed(self.folder)

    def rest(self, layers: tuple[Layer, ...], base: Path | None) -> tuple[str, ...]:
        """Take layers into use, and a base that stands among them: nobody removes them before `leave`. Call it while
        `sharing.adding`; what to leave.

        Raises:
            StoreError: one of them is gone.
        """
        names = [layer.name for layer in layers]
        if base is not None and base.parent == self.stack:
            names.append(base.name)
        for name in names:
            if not (self.stack / name).is_dir():
                raise StoreError(f"layer {name} in {self.folder} is gone: another process removed its checkpoint")
        self.sharing.rest(names)
        return tuple(names)

    def forget(self, id: str, used: tuple[Layer, ...] = ()) -> None:
        """Remove a checkpoint, and the layers that no other checkpoint, no sandbox and none of `used` rests on."""
        self.collect(lambda snapshot: snapshot.id == id, used={layer.name for layer in used})

    def collect(
        self,
        doomed: Callable[[Snapshot], bool],
        *,
        before: float = float("inf"),
        used: set[str] | frozenset[str] = frozenset(),
        dry: bool = False,
    ) -> Removed:
        """Remove the checkpoints that `doomed` says, and the layers that no other checkpoint and no sandbox, of
        whatever process, rests on.

        Args:
            doomed: whether a checkpoint is to go.
            before: seconds since 1970; nothing that was made later is touched.
            used: layers that stay.
            dry: only say what would go.

        Raises:
            StoreError: the folder cannot be locked.
        """
        with self.sharing.removing():
            every = [each for each in self.list() if each.kind == KIND]
            going = [each for each in every if each.at < before and doomed(each)]
            gone = {each.id for each in going}
            left = [each for each in every if each.id not in gone]
            kept = {layer.name for each in left for layer in each.layers} | used | self.sharing.used()
            kept |= {Path(each.base).name for each in left if each.base}
            kept |= {each.processes.name for each in left if each.processes}
            layers = [each for each in self.stack.iterdir() if each.name not in kept and made(each) < before]
            found = Removed(
                checkpoints=len(going),
                layers=len(layers),
                bytes=sum(blocks(each) for each in layers),
                young=sum(each.at >= before and doomed(each) for each in every),
            )
            paths = [self.folder / f"{each.id}.json" for each in going]
            aside = None if dry else away([*paths, *layers], self.folder)
        if aside is not None:
            remove(aside)
        return found

    def _adopted(
        self,
        top: Path,
        label: str,
        below: tuple[Layer, ...],
        base: str,
        overlays: Collection[str],
        copy: bool,
        take: Take | None,
        note: str,
    ) -> Snapshot:
        name = secrets.token_hex(5)
        place = self.stack / name
        written = self.stack / f"{name}-processes"
        try:
            if take is not None:
                take(place, written)
            elif copy:
                copied(top, place)
            else:
                top.rename(place)
        except OSError as error:
            remove(place)
            remove(written)
            raise StoreError(f"a checkpoint cannot be kept in {self.folder}: {error.strerror or error}") from error
        except BaseException:
            remove(place)
            remove(written)
            raise
        try:
            found = digest_of(place)
            images = None if take is None else Layer(name=written.name, digest=digest_of(written).value)
            # A base among the layers is a copy that nobody changes.
            before = standing(Path(base)) if base and Path(base).parent != self.stack else ""
        except OSError as error:
            if take is None and not copy:
                place.rename(top)
            remove(place)
            remove(written)
            raise StoreError(f"a checkpoint cannot be kept in {self.folder}: {error.strerror or error}") from error
        layers = (*below, Layer(name=name, digest=found.value))
        if len(layers) > DEEPEST:
            layers = self._merged(layers)
        snapshot = Snapshot(
            id=secrets.token_hex(8),
            label=label,
            layers=layers,
            base=base,
            at=time.time(),
            fidelity=_fidelity(take is not None, note),
            processes=images,
            note=note,
            size=found.size,
            # What stood on nothing was no overlay's: whatever marks it has, programs made.
            plain=not below and bool(found.marked - set(overlays)),
            base_was=before,
        )
        write(self.folder / f"{snapshot.id}.json", snapshot)
        if self._durable:
            flush(self.folder)
        return snapshot

    def _merged(self, layers: tuple[Layer, ...]) -> tuple[Layer, ...]:
        """One layer for several; these themselves where they cannot be merged, for they can be mounted all the same."""
        name = secrets.token_hex(5)
        try:
            for layer in layers:
                for place in PLACES:
                    (self.stack / name / place).mkdir(parents=True, exist_ok=True)
                    shutil.copystat(self.stack / layer.name / place, self.stack / name / place)
                    _chown_like(self.stack / layer.name / place, self.stack / name / place)
                    _lay_over(self.stack / layer.name / place, self.stack / name / place)
            return (Layer(name=name, digest=digest_of(self.stack / name).value),)
        except (OSError, RecursionError) as error:
            remove(self.stack / name)
            if len(layers) > _MOST:
                raise StoreError(f"{len(layers)} checkpoints above each other cannot be merged: {error}") from error
            return layers


def _fidelity(processes: bool, note: str) -> str:
    if not processes:
        return Fidelity.FILES
    return Fidelity.PROCESSES if note else Fidelity.EXACT


def listed(folder: Path) -> list[Snapshot]:
    """The checkpoints of a folder that can be read, oldest first; one that is removed at this moment is none."""
    found: list[Snapshot] = []
    for path in folder.glob("*.json"):
        with contextlib.suppress(FileNotFoundError, msgspec.DecodeError):
            found.append(msgspec.json.decode(path.read_bytes(), type=Snapshot))
    return sorted(found, key=lambda snapshot: snapshot.at)


def made(path: Path) -> float:
    """When something came to its place: a layer keeps the other times of what it was made from."""
    try:
        return path.lstat().st_ctime
    except FileNotFoundError:
        return float("inf")


def flush(folder: Path) -> None:
    """Have the file system that holds a folder written to disk."""
    fd = os.open(folder, os.O_RDONLY)
    try:
        ctypes.CDLL(None).syncfs(fd)
    finally:
        os.close(fd)


def copied(source: Path, target: Path) -> None:
    """Copy a file or folder with all that belongs to it. Raises OSError."""
    # cp keeps what Python's own copying does not: whiteouts, extended attributes, hard links, holes.
    done = subprocess.run(
        ["cp", "-a", "--reflink=auto", str(source), str(target)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise OSError(0, done.stderr.strip().splitlines()[0] if done.stderr else "cp failed")


def _chown_like(source: Path, target: Path) -> None:
    about = source.lstat()
    if (about.st_uid, about.st_gid) != (os.getuid(), os.getgid()):
        os.chown(target, about.st_uid, about.st_gid, follow_symlinks=False)


def _lay_over(upper: Path, lower: Path) -> None:
    """Apply a layer to a merged one, keeping the marks that say what is deleted further below."""
    for entry in sorted(os.scandir(upper), key=lambda each: each.name):
        target = lower / entry.name
        about = entry.stat(follow_symlinks=False)
        if stat.S_ISDIR(about.st_mode):
            covers = opaque(entry.path)
            if target.is_symlink() or not target.is_dir() or covers:
                hidden = covers or os.path.lexists(target)
                remove_any(target)
                target.mkdir()
                if hidden:
                    os.setxattr(target, "user.overlay.opaque", b"y")
            _lay_over(Path(entry.path), target)
            shutil.copystat(entry.path, target, follow_symlinks=False)
            _chown_like(Path(entry.path), target)
        else:
            remove_any(target)
            copied(Path(entry.path), target)


def remove_any(path: Path) -> None:
    """Remove whatever stands there."""
    if path.is_dir() and not path.is_symlink():
        remove(path)
    elif os.path.lexists(path):
        path.unlink()

"""The files of one sandbox, and how they are kept: on overlay layers, or by copying where the kernel has no overlays.

begin ─▶ folders to mount (mounts) ─▶ keep ─▶ Snapshot ─▶ turn (another sandbox's files, or earlier ones)
"""

from __future__ import annotations

import os
import secrets
import shutil
import stat
from pathlib import Path
from typing import Any, Protocol

from silva.errors import StoreError
from silva.sandbox.contents import Contents, copy_base
from silva.sandbox.layer_digest import standing
from silva.sandbox.layers import PLACES, Layer, Layers, Snapshot, Take, copied
from silva.sandbox.owner import remove

_NOTHING = "nothing"
"""An empty folder, below files that are to stand apart."""
_REST = (("home", 0o755), ("tmp", 0o1777), ("var", 0o1777))


class Files(Protocol):
    """What one sandbox may write."""

    moves: bool
    """Whether keeping them takes them away, so that its first process must be started anew."""

    def begin(self, snapshot: Snapshot | None) -> None:
        """Make them ready, empty or as at a checkpoint. Raises OSError, StoreError."""
        ...

    def mounts(self) -> dict[str, Any]:
        """What the fork server is to mount."""
        ...

    def written(self) -> list[Path]:
        """The folders that hold what was written, for looking at how much."""
        ...

    def keep(self, label: str, *, live: bool, take: Take | None = None, note: str = "") -> Snapshot:
        """Keep a checkpoint. Raises StoreError.

        Args:
            label: what its maker calls it.
            live: whether programs go on using them.
            take: copies them and writes the programs down; only where they are on layers.
            note: why there are no processes in it.
        """
        ...

    def turn(self, snapshot: Snapshot) -> None:
        """Make them what they were at a checkpoint; no program uses them. Raises StoreError."""
        ...

    def again(self) -> None:
        """Make them ready once more, as they are, for another process 1. Raises OSError."""
        ...

    def end(self) -> None:
        """Rest on no checkpoint any more: its sandbox is gone."""
        ...


class OverlayFiles:
    """Files on layers: the lower ones shared and never written, the top one this sandbox's own. Where there is nothing
    below, the top one stands there as it is: an overlay shows the same, and takes 4 ms to mount.
    """

    moves = True

    def __init__(self, folder: Path, store: Layers, base: Path | None, user: int | None, apart: bool = False) -> None:
        self._folder = folder
        self._apart = apart
        self._store = store
        self._base = base
        self._user = user
        self._layers: tuple[Layer, ...] = ()
        self._rests: tuple[str, ...] = ()
        self._copies = ""
        """The layer that is copied, not mounted: see `Snapshot.plain`."""

    def begin(self, snapshot: Snapshot | None) -> None:
        """See `Files.begin`."""
        self._take(snapshot)
        self._make()

    def _take(self, snapshot: Snapshot | None) -> None:
        """Say what it rests on. Raises StoreError, and is as it was."""
        # Another process may remove checkpoints of this folder at any moment: what is taken into use is said first.
        with self._store.sharing.adding():
            if snapshot is not None:
                layers, base = snapshot.layers, Path(snapshot.base) if snapshot.base else None
            else:
                layers, base = self._layers, self._base
                if base is not None and self._user is not None and base.parent != self._store.stack:
                    base = owned_base(base, self._store.stack, self._user)
            before, self._rests = self._rests, self._store.rest(layers, base)
            plain = snapshot is not None and snapshot.plain
            self._copies = layers[0].name if plain else ""
            self._layers, self._base = () if plain else layers, base
        self._store.sharing.leave(before)

    def _make(self) -> None:
        if self._apart and not (self._folder / _NOTHING).is_dir():
            _make(self._folder / _NOTHING, 0o755, None)
        for place in PLACES:
            if self._lower(place):
                _make(self._folder / "work" / place, 0o755, self._user)
        if self._copies:
            remove(self._folder / "top")
            copied(self._store.stack / self._copies, self._folder / "top")
            return
        if not self._layers:
            begin_empty(self._folder, self._user)
            return
        # A place's own mode is that of its uppermost folder, which is this one.
        below = self._store.stack / self._layers[-1].name
        for place in PLACES:
            _make(self._folder / "top" / place, stat.S_IMODE((below / place).stat().st_mode), self._user)

    def mounts(self) -> dict[str, Any]:
        """See `Files.mounts`."""
        overlays, folders = [], []
        for place in PLACES:
            if lower := self._lower(place):
                overlays.append(self._overlay(place, lower))
            else:
                folders.append([place, str(self._folder / "top" / place)])
        return {"overlays": overlays, "folders": folders}

    def written(self) -> list[Path]:
        """See `Files.written`."""
        return [self._folder / "top"]

    def keep(self, label: str, *, live: bool, take: Take | None = None, note: str = "") -> Snapshot:
        """See `Files.keep`."""
        base = "" if self._base is None else str(self._base.absolute())
        overlays = [place for place in PLACES if self._lower(place)]
        snapshot = self._store.adopt(
            self._folder / "top", label, self._layers, base, overlays, copy=live, take=take, note=note
        )
        if not live:
            remove(self._folder / "work")
            self.begin(snapshot)
        return snapshot

    def turn(self, snapshot: Snapshot) -> None:
        """See `Files.turn`."""
        self._take(snapshot)
        old = self._folder / f"old-{secrets.token_hex(4)}"
        (self._folder / "top").rename(old)
        remove(self._folder / "work")
        self._make()
        remove(old)

    def again(self) -> None:
        """See `Files.again`: what the kernel left of the last mount it takes for a crash."""
        remove(self._folder / "work")
        if self._apart and not (self._folder / _NOTHING).is_dir():
            _make(self._folder / _NOTHING, 0o755, None)
        for place in PLACES:
            if self._lower(place):
                _make(self._folder / "work" / place, 0o755, self._user)

    def end(self) -> None:
        """See `Files.end`."""
        rests, self._rests = self._rests, ()
        self._store.sharing.leave(rests)

    def _lower(self, place: str) -> list[str]:
        """What lies below a place, the uppermost first."""
        lower = [f"{layer.name}/{place}" for layer in reversed(self._layers)]
        if place == "workspace" and self._base is not None:
            lower.append(str(self._base.absolute()))
        return lower or ([str((self._folder / _NOTHING).absolute())] if self._apart else [])

    def _overlay(self, place: str, lower: list[str]) -> dict[str, Any]:
        return {
            "name": place,
            "folder": str(self._store.stack),
            "lower": lower,
            "upper": str(self._folder / "top" / place),
            "work": str(self._folder / "work" / place),
        }


class CopiedFiles:
    """Files in folders of the sandbox's own; checkpoints by content."""

    moves = False

    def __init__(self, folder: Path, store: Contents, base: Path | None, user: int | None) -> None:
        self.top = folder / "top"
        self._store = store
        self._base = base
        self._user = user

    def begin(self, snapshot: Snapshot | None) -> None:
        """See `Files.begin`."""
        if snapshot is not None:
            self._store.bring_back(snapshot.id, self.top, self._user)
            return
        begin_empty(self.top.parent, self._user)
        if self._base is not None:
            copy_base(self._base, self.top / "workspace")
            give(self.top / "workspace", self._user)

    def mounts(self) -> dict[str, Any]:
        """See `Files.mounts`."""
        return {"overlays": [], "folders": [[place, str(self.top / place)] for place in PLACES]}

    def written(self) -> list[Path]:
        """See `Files.written`."""
        return [self.top]

    def keep(self, label: str, *, live: bool, take: Take | None = None, note: str = "") -> Snapshot:
        """See `Files.keep`."""
        return self._store.keep(self.top, label, note=note)

    def turn(self, snapshot: Snapshot) -> None:
        """See `Files.turn`."""
        # First the new ones whole, then the old ones away: a damaged checkpoint leaves the sandbox as it is.
        new = self.top.with_name(f"new-{secrets.token_hex(4)}")
        try:
            self._store.bring_back(snapshot.id, new, self._user)
        except StoreError:
            remove(new)
            raise
        remove(self.top)
        new.rename(self.top)

    def again(self) -> None:
        """See `Files.again`; nothing is mounted."""

    def end(self) -> None:
        """See `Files.end`; each has its own copies."""


def begin_empty(folder: Path, user: int | None) -> None:
    """Make the empty places of a sandbox below `folder`, if they are not there. Raises OSError."""
    if (folder / "top").exists():
        return
    _make(folder / "top" / "workspace", 0o755, user)
    _make(folder / "top" / "rest", 0o755, user)
    for name, mode in _REST:
        _make(folder / "top" / "rest" / name, mode, user)


def owned_base(base: Path, stack: Path, user: int) -> Path:
    """A copy of a folder that belongs to `user`, made once: where root is the caller, the sandbox's programs are
    nobody's, and could not change what is root's.

    Raises:
        StoreError: it cannot be copied.
    """
    about = base.stat()
    try:
        place = stack / f"base-{about.st_dev:x}-{about.st_ino:x}-{standing(base)}"
    except OSError as error:
        raise StoreError(f"{base} cannot be read for a sandbox: {error.strerror}") from error
    if place.is_dir():
        return place
    new = place.with_name(f"{place.name}-{secrets.token_hex(3)}")
    try:
        copy_base(base, new)
        give(new, user)
        new.rename(place)
    except OSError as error:
        shutil.rmtree(new, ignore_errors=True)
        if not place.is_dir():
            raise StoreError(f"{base} cannot be copied for a sandbox: {error.strerror}") from error
    return place


def _make(path: Path, mode: int, user: int | None) -> None:
    path.mkdir(mode, parents=True)
    if stat.S_IMODE(path.stat().st_mode) != mode:
        path.chmod(mode)
    if user is not None:
        os.chown(path, user, user)


def give(folder: Path, user: int | None) -> None:
    """Give a folder and all in it to the user of sandboxes; `None`: it stays the caller's. Raises OSError."""
    if user is None:
        return
    os.chown(folder, user, user)
    for place, folders, names in os.walk(folder):
        for name in (*folders, *names):
            os.chown(os.path.join(place, name), user, user, follow_symlinks=False)  # noqa: PTH118

"""Checkpoints: folders that are there whole or not at all, the last few of them.

    fill a folder beside ─▶ fsync every file ─▶ rename ─▶ step-000040 ─▶ the oldest go
                 └─ the disk refuses: the draft goes, what was there stays, one line says so

A checkpoint whose weights then turned out bad is set aside under the name `diverged-step-…`: no run resumes from it.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

from silva.lake.durable import sync_file, sync_folder
from silva.train.output import disk_refusals

_NAME = re.compile(r"step-(\d{6,})")
_DRAFT = ".unfinished-"


def write_folder(folder: Path, fill: Callable[[Path], None]) -> Path:
    """Make `folder` whole or not at all; one of that name is replaced once the new one is on disk.

    Args:
        folder: its name.
        fill: writes into the empty folder it is given.

    Raises:
        StoreError: the disk refused; what was there before is still there.
    """
    draft = folder.with_name(f"{_DRAFT}{folder.name}-{os.getpid()}")
    try:
        with disk_refusals(folder.name):
            folder.parent.mkdir(parents=True, exist_ok=True)
            for left in folder.parent.glob(f"{_DRAFT}{folder.name}-*"):  # of a process that was killed
                shutil.rmtree(left, ignore_errors=True)
            draft.mkdir()
            fill(draft)
            for place, _, names in os.walk(draft):
                for name in names:
                    sync_file(Path(place, name))
                sync_folder(Path(place))
            if folder.exists():
                old = folder.with_name(f"{_DRAFT}{folder.name}-{os.getpid()}-old")
                folder.rename(old)
                draft.rename(folder)
                shutil.rmtree(old, ignore_errors=True)
            else:
                draft.rename(folder)
            sync_folder(folder.parent)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return folder


class Checkpoints:
    """The checkpoints of a run.

    Args:
        folder: that holds them; drafts of a killed process are cleared away.
        keep: how many stay.
    """

    def __init__(self, folder: Path, keep: int) -> None:
        self._folder = folder
        self._keep = keep
        for draft in folder.glob(f"{_DRAFT}*"):
            shutil.rmtree(draft, ignore_errors=True)

    def all(self) -> list[tuple[int, Path]]:
        """Steps and folders, the oldest first."""
        found = [(match, path) for path in self._folder.glob("step-*") if (match := _NAME.fullmatch(path.name))]
        return sorted((int(match[1]), path) for match, path in found)

    def latest(self) -> Path | None:
        """The newest, None where there is none."""
        there = self.all()
        return there[-1][1] if there else None

    def write(self, step: int, fill: Callable[[Path], None]) -> Path:
        """Write the checkpoint of a step; the oldest beyond `keep` go.

        Raises:
            StoreError: as `write_folder`.
        """
        written = write_folder(self._folder / f"step-{step:06d}", fill)
        for _, old in self.all()[: -self._keep]:
            shutil.rmtree(old, ignore_errors=True)
        return written

    def set_aside(self, step: int) -> None:
        """Take those of `step` and later out of the way: their weights are bad."""
        for number, path in self.all():
            if number >= step:
                aside = path.with_name(f"diverged-{path.name}")
                shutil.rmtree(aside, ignore_errors=True)
                path.rename(aside)

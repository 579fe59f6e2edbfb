"""Empty folders of sandboxes, made before they are needed: to make one takes some twenty writes to the file system,
up to 6 ms where it is busy.

    Blanks ─▶ a few spare ─▶ take(folder): one is renamed to a sandbox's folder, another made behind the caller's back

What one holds is what `silva.sandbox.files` would make: `top/` with the places a sandbox may write, empty.
"""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path

from silva.sandbox import owner
from silva.sandbox.files import begin_empty
from silva.sandbox.owner import LABEL, Label

_SPARE = 3


class Blanks:
    """The blanks of one backend, kept in its folder and gone with it."""

    def __init__(self, folder: Path, user: int | None) -> None:
        self._folder = folder
        self._user = user
        self._names = itertools.count(1)
        self._spare: list[Path] = []
        self._making: asyncio.Task[None] | None = None
        self._closed = False
        self._fill()

    def take(self, folder: Path, label: Label) -> bool:
        """Make a spare one this sandbox's folder, its label in it; False where none is ready. Raises OSError."""
        if not self._spare:
            self._fill()
            return False
        blank = self._spare.pop()
        owner.write(blank / LABEL, label, whole=False)  # nobody looks at it before it has its name
        blank.rename(folder)
        self._fill()
        return True

    async def close(self) -> None:
        """Make no more; those that are left go with the backend's folder."""
        self._closed = True
        if self._making is not None:
            await asyncio.gather(self._making, return_exceptions=True)

    def _fill(self) -> None:
        idle = self._making is None or self._making.done()
        if idle and not self._closed:
            self._making = asyncio.get_running_loop().create_task(self._make())

    async def _make(self) -> None:
        while len(self._spare) < _SPARE and not self._closed:
            place = self._folder / f".blank-{next(self._names)}"
            try:
                await asyncio.to_thread(self._made, place)
            except OSError:
                return  # whoever makes a sandbox next meets the same error, and says so
            self._spare.append(place)

    def _made(self, place: Path) -> None:
        place.mkdir(mode=0o755)
        begin_empty(place, self._user)

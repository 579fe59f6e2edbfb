"""What a sandbox of namespaces stands on: as much of its backend as it uses."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

from silva.sandbox.blanks import Blanks
from silva.sandbox.capabilities import Capabilities
from silva.sandbox.contents import Contents
from silva.sandbox.files import Files
from silva.sandbox.frozen import Frozen
from silva.sandbox.layers import Layers
from silva.sandbox.protocol import Spec
from silva.sandbox.room import Room
from silva.sandbox.slots import Slots
from silva.sandbox.spawner import Spawner
from silva.sandbox.watch import Watch


class Ground(Protocol):
    """A backend of namespaces, as its sandboxes see it. `user`: whom programs are on this machine, None for the
    caller; `reached`: what was found out of the machine; `folder` holds the sandboxes, each in its own."""

    name: str
    folder: Path
    user: int | None
    reached: Capabilities
    snapshots: Layers | Contents
    spawner: Spawner
    slots: Slots
    blanks: Blanks
    frozen: Frozen
    watch: Watch
    room: Room

    @property
    def without_processes(self) -> str:
        """Why checkpoints cannot take along what runs; "" where they can."""
        ...

    def capabilities(self) -> Capabilities:
        """See `Backend.capabilities`."""
        ...

    def files(self, folder: Path, base: Path | None, *, apart: bool = False) -> Files:
        """The files of a sandbox kept in `folder`."""
        ...

    async def fork(self, id: str, n: int, spec: Spec) -> list[Any]:
        """`n` sandboxes that begin at a checkpoint."""
        ...

    def forget(self, id: str) -> None:
        """A sandbox is no more."""
        ...

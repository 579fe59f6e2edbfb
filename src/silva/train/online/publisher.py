"""Who serves the policy while it is trained, and what its versions are called on the nodes they draw."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from silva.models.model import Model


class Publisher(Protocol):
    """Serves the policy that a run begins with as version 0, then each that it is given."""

    @property
    def model(self) -> Model:
        """What agents ask; it answers with the newest version that was published."""
        ...

    async def publish(self, folder: Path, step: int) -> None:
        """Serve these weights as version `step` from now on; return once every new request is answered by them. No
        request fails; one that is under way may end on the version it began with. `folder` is the publisher's now.

        Raises:
            UnreachableError: it cannot; what was served before is served on.
        """
        ...

    def number(self, version: str) -> int:
        """The number of the version that a node carries. What this run did not publish is what it began with: 0."""
        ...

    async def close(self) -> None:
        """Stop what was started for it."""
        ...


class Named:
    """Versions that are called `RUN-STEP`, in this part of the run and in earlier ones."""

    def __init__(self, run: str) -> None:
        self._prefix = f"{run}-"

    def name(self, step: int) -> str:
        """What version `step` is called."""
        return f"{self._prefix}{step}"

    def number(self, version: str) -> int:
        """See `Publisher.number`."""
        step = version.removeprefix(self._prefix)
        return int(step) if step != version and step.isdecimal() else 0

"""Who serves the policy while it is trained, and what its versions are called on the nodes they draw."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from silva.errors import UsageError
from silva.models.model import Model


class ForeignVersion(UsageError):
    """A turn was drawn by a version that this run did not publish."""


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

    async def restore(self, step: int) -> str:
        """Serve version `step` once more without being given it, 0 being the policy the run begins with. A server of
        the run's own begins with version 0 and ends with the run: it has nothing to do.

        Returns:
            What is served on when the run has ended, by name; "" where nothing is.

        Raises:
            UsageError: there is no such version.
            UnreachableError: it cannot; what was served before is served on.
        """
        ...

    def number(self, version: str) -> int:
        """The number of the version that a node carries.

        Raises:
            ForeignVersion: this run did not publish it, and others can publish where this run does.
        """
        ...

    async def confirm(self) -> None:
        """See that what is served is a version of this run.

        Raises:
            UsageError: it is another's; the line says whose place it takes, and what to do.
            UnreachableError: who serves does not answer.
        """
        ...

    async def close(self) -> None:
        """Stop what was started for it."""
        ...


class Named:
    """Versions of a server of the run's own. They are called `RUN-STEP`, in this part of the run and in earlier ones;
    what has another name is what the run began with."""

    def __init__(self, run: str) -> None:
        self._prefix = f"{run}-"

    def name(self, step: int) -> str:
        """What version `step` is called."""
        return f"{self._prefix}{step}"

    def number(self, version: str) -> int:
        """See `Publisher.number`."""
        step = version.removeprefix(self._prefix)
        return int(step) if step != version and step.isdecimal() else 0

    async def restore(self, step: int) -> str:
        """See `Publisher.restore`."""
        return ""

    async def confirm(self) -> None:
        """See `Publisher.confirm`; nobody else reaches it."""

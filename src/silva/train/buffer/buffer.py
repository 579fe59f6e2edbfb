"""The protocol of a job's buffer: the same whether it is in this process (`Job`) or behind HTTP (`BufferClient`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from silva.train.buffer.group import Admission, Delivery, Group, Receipt, Status, Withheld


class Buffer(Protocol):
    """One job, seen by those who grow groups and by the one who trains on them. Every call may be repeated.

    All methods raise `Refused` where the buffer says no, `StoreError` where its disk does, and, over HTTP,
    `UnreachableError` where it does not answer.
    """

    async def permits(self) -> int:
        """How many more groups may start now."""
        ...

    async def start(self, ids: Sequence[str], *, wait: float = 0.0) -> Admission:
        """Ask to grow these groups; as many are admitted, in order, as the bound allows. Where none is and none is
        known, wait up to `wait` seconds for room. Asking again for one in flight renews its time."""
        ...

    async def abandon(self, ids: Sequence[str]) -> int:
        """Give up groups that were started; return how many of them were in flight."""
        ...

    async def put(self, group: Group, *, wait: float = 0.0) -> Receipt:
        """Bring a group; returns once it is on disk. One that was started always has room; for another, wait up to
        `wait` seconds.

        Raises:
            Refused: it is not whole, or `full`.
        """
        ...

    async def take(self, after: int, count: int, *, wait: float = 0.0) -> list[Delivery]:
        """The hand-outs behind cursor `after`, at most `count`, at least one unless `wait` seconds pass without any.

        Raises:
            Refused: `conflict` where the step has all its groups, or the cursor is none to take from.
        """
        ...

    async def commit(self, cursor: int, version: int | None = None, *, checkpointed: int | None = None) -> Status:
        """All up to `cursor` is trained and the policy is at `version` (None: no new one yet). Publish a version before
        you commit it: a group started at it must not be drawn by an older one. `checkpointed`: the cursor to which the
        trainer will never come back (None: `cursor`).

        Raises:
            Refused: `conflict` for a cursor or version out of turn.
        """
        ...

    async def rewind(self, cursor: int, version: int) -> Status:
        """Go back to a checkpoint: what was handed out after `cursor` will be again, in the same order.

        Raises:
            Refused: `conflict` where that is released or does not fit the version.
        """
        ...

    async def status(self) -> Status:
        """The job at a glance."""
        ...

    async def withheld(self, after: int = 0, most: int = 100) -> list[Withheld]:
        """Groups that are too stale, by sequence above `after`."""
        ...

    async def read(self, name: str) -> Group:
        """A group that is ready, taken or withheld, as it came.

        Raises:
            Refused: `not_found`.
        """
        ...

    async def close(self) -> None:
        """Let go of what this holds (connections, files); nothing is lost."""
        ...

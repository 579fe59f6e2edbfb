"""What crosses the buffer's wire: a group, what is known of it, and the answers to those who bring and take.

A group is all samples of one task that are scored together. It enters whole: its samples, rewards and versions are one
message and one file.
"""

from __future__ import annotations

import math
import re
from typing import Literal

import msgspec

from silva.train.buffer.refused import Refused

LARGEST_NUMBER = 1 << 53
MOST_SAMPLES = 4096
ID = re.compile(r"[!-~]{1,200}")
"""Ids of groups and tasks: 1 to 200 printable ASCII characters without blanks."""

State = Literal["ready", "taken", "withheld", "released"]


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """What the buffer knows of a group. `versions` are the numbers of the policy versions that drew it, `rewards` one
    for each sample (None: it has none), `size` the number of samples, `bytes` their length together."""

    id: str
    task_id: str = ""
    versions: tuple[int, ...]
    rewards: tuple[float | None, ...]
    size: int
    bytes: int

    @property
    def oldest(self) -> int:
        """The oldest version that drew any of it; staleness is counted from here."""
        return min(self.versions)


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """A group on its way in or out. `samples` are opaque (`Sample.to_bytes`), as many as `rewards`.

    `versions` are numbers: what the registry or the trainer counts its policy versions with, rising by one.
    """

    id: str
    task_id: str = ""
    versions: tuple[int, ...]
    rewards: tuple[float | None, ...]
    samples: tuple[bytes, ...]

    def header(self) -> Header:
        """What the buffer keeps in mind of it.

        Raises:
            Refused: it is not whole: ids that are none, no samples, rewards for another number of samples or not
                finite, no versions or negative ones.
        """
        check_id("group", self.id)
        if self.task_id:
            check_id("task", self.task_id)
        size = len(self.samples)
        if not 1 <= size <= MOST_SAMPLES:
            raise Refused("malformed", f"group {self.id}: has {size} samples; give 1 to {MOST_SAMPLES}")
        if len(self.rewards) != size:
            raise Refused("malformed", f"group {self.id}: has {len(self.rewards)} rewards for {size} samples")
        for index, reward in enumerate(self.rewards):
            if reward is not None and not math.isfinite(reward):
                raise Refused(
                    "malformed", f"group {self.id}: reward {index} is {reward}; give a number, or null for none"
                )
        if not 1 <= len(self.versions) <= MOST_SAMPLES:
            raise Refused("malformed", f"group {self.id}: names no policy version (or over {MOST_SAMPLES})")
        if not all(0 <= version < LARGEST_NUMBER for version in self.versions):
            raise Refused("malformed", f"group {self.id}: versions are {self.versions}; give numbers from 0")
        return Header(
            id=self.id,
            task_id=self.task_id,
            versions=tuple(sorted(set(self.versions))),
            rewards=self.rewards,
            size=size,
            bytes=sum(map(len, self.samples)),
        )


class Admission(msgspec.Struct, frozen=True, kw_only=True):
    """Which groups may be grown now. `known` are in the buffer already: there is no need to grow them again."""

    admitted: tuple[str, ...]
    known: tuple[str, ...] = ()


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """A group is in the buffer, durably. `sequence` counts groups as they came in, from 1; `again`: it was there
    before this call, and this copy was not kept."""

    id: str
    sequence: int
    state: State
    again: bool = False


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """A group handed out. `number` is its place in the sequence of all hand-outs, from 1, and the cursor to commit;
    `version` the policy version it is trained at, `staleness` how many versions older its oldest token is."""

    number: int
    version: int
    staleness: int
    group: Group


class Withheld(msgspec.Struct, frozen=True, kw_only=True):
    """A group that came, or became, too stale. It is on disk and can be read by its id."""

    sequence: int
    header: Header


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """A job at a glance; numbers are of groups.

    `late`: in flight for so many versions that they will be withheld. `taken`: handed out, not committed. `committed`
    is the trainer's cursor, `delivered` the number of the last hand-out, `checkpointed` the cursor to which nothing is
    kept to be handed out again.
    """

    version: int
    bound: int
    groups_per_step: int
    permits: int
    in_flight: int
    late: int
    ready: int
    taken: int
    withheld: int
    entered: int
    delivered: int
    committed: int
    checkpointed: int
    abandoned: int


def check_id(what: str, text: str) -> None:
    """Refuse what is no id.

    Raises:
        Refused: malformed.
    """
    if not ID.fullmatch(text):
        raise Refused("malformed", f"{what} id {text[:60]!r}: give 1 to 200 printable ASCII characters without blanks")

"""Parts that share no task: each group of tasks falls into one part, by a digest of its name alone.

    environment + group ─▶ digest with the seed ─▶ a point in [0, 1) ─▶ the part whose stretch holds it

No other task has a say in it: tasks that are added, left out or run again move nothing. The shares hold on average, not
to the digit. What the points cannot know, that two groups ask the same question, `leaks` finds before anything is
written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from silva.errors import UsageError
from silva.train.data.dataset import DataSet, Entry
from silva.tree import digest


def check_shares(shares: Mapping[str, float]) -> None:
    """See that the shares of the parts make a whole.

    Raises:
        UsageError: there are fewer than two, one is not above 0, or they do not add up to 1.
    """
    if len(shares) < 2:
        raise UsageError("parts: name at least two, such as train=0.8,test=0.2")
    for name, share in shares.items():
        if not name.isidentifier() or not 0 < share < 1:
            raise UsageError(f"parts: {name}={share:g}: a part is a word and its share, between 0 and 1")
    total = sum(shares.values())
    if abs(total - 1) > 1e-6:
        raise UsageError(f"parts: the shares add up to {total:g}, not to 1")


def split(entries: Sequence[Entry], shares: Mapping[str, float], seed: int = 0) -> dict[str, DataSet]:
    """The parts, in the order of `shares`, entries in the order given.

    Raises:
        UsageError: the shares make no whole, or a part stays empty.
    """
    check_shares(shares)
    parts: dict[str, list[Entry]] = {name: [] for name in shares}
    for entry in entries:
        parts[part_for(entry.env, entry.group or entry.task_id, shares, seed)].append(entry)
    empty = next((name for name, members in parts.items() if not members), None)
    if empty is not None:
        count = len({(entry.env, entry.group) for entry in entries})
        raise UsageError(
            f"parts: {empty} stays empty, of {count} groups of tasks none fell into it; give it more tasks"
        )
    return {name: DataSet(part=name, entries=tuple(members)) for name, members in parts.items()}


def part_for(env: str, group: str, shares: Mapping[str, float], seed: int = 0) -> str:
    """The part a group of tasks belongs to, whatever other tasks there are."""
    point = int(digest("split", str(seed), env, group)[:13], 16) / 16**13
    end, name = 0.0, ""
    for name, share in shares.items():
        end += share
        if point < end:
            return name
    return name

"""Rows of the cache kept after their request is done: the next turn of a conversation begins with this one.

A row belongs to the weights that computed it: what one version kept is never a beginning for another. Each owner's rows
hang on a radix tree of their ids, so that a beginning is found in the time it takes to read it, however many are kept.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from torch import Tensor

SHORTEST = 16
"""A shared beginning shorter than this is computed again rather than copied."""


Key = tuple[str, tuple[int, ...]]
"""Whose row it is (an adapter's digest, "" for the plain weights) and its ids."""


@dataclass(slots=True, eq=False)
class _Branch:
    ids: tuple[int, ...] = ()
    below: dict[int, _Branch] = field(default_factory=dict[int, "_Branch"])
    kept: Key | None = None


class Prefixes:
    """The most recently finished rows, within a bound of tokens in all."""

    def __init__(self, most_tokens: int) -> None:
        self._most = most_tokens
        self._held = 0
        self._rows: OrderedDict[Key, tuple[Tensor, Tensor]] = OrderedDict()
        self._trees: dict[str, _Branch] = {}

    def find(self, ids: list[int], owner: str = "") -> tuple[tuple[Tensor, Tensor], int] | None:
        """The kept row of `owner` sharing the longest beginning with `ids` and how many tokens it shares, always
        leaving one to read."""
        branch, shared = self._trees.get(owner), 0
        if branch is None:
            return None
        for each, same in _along(branch, ids):
            branch, shared = each, shared + same
        shared = min(shared, len(ids) - 1)
        if shared < SHORTEST:
            return None
        while branch.kept is None:
            branch = next(iter(branch.below.values()))
        self._rows.move_to_end(branch.kept)
        return self._rows[branch.kept], shared

    def keep(self, ids: list[int], row: tuple[Tensor, Tensor], owner: str = "") -> None:
        """Keep a row, letting go of the ones longest unused, and of one that this continues."""
        key = (owner, tuple(ids))
        if not ids or len(ids) > self._most:
            return
        if (tree := self._trees.get(owner)) is not None:
            whole = [each for each, same in _along(tree, ids) if same == len(each.ids)]
            for known in [each.kept for each in whole if each.kept is not None]:
                self._drop(known)
        while self._rows and self._held + len(ids) > self._most:
            self._drop(next(iter(self._rows)))
        _hang(self._trees.setdefault(owner, _Branch()), key)
        self._rows[key] = row
        self._held += len(ids)

    def forget(self, owner: str) -> None:
        """Let go of all rows of one owner."""
        for known in [known for known in self._rows if known[0] == owner]:
            self._drop(known)

    def _drop(self, key: Key) -> None:
        del self._rows[key]
        self._held -= len(key[1])
        tree = self._trees[key[0]]
        path = [tree, *(branch for branch, _ in _along(tree, key[1]))]
        path[-1].kept = None
        while len(path) > 1 and path[-1].kept is None and not path[-1].below:
            gone = path.pop()
            del path[-1].below[gone.ids[0]]
        if not tree.below:
            del self._trees[key[0]]


def _along(tree: _Branch, ids: Sequence[int]) -> Iterator[tuple[_Branch, int]]:
    """The branches below a tree that go the way of `ids`, and how many ids of each do."""
    place, here = 0, tree
    while place < len(ids) and (branch := here.below.get(ids[place])) is not None:
        same = _alike(branch.ids, ids[place : place + len(branch.ids)])
        yield branch, same
        if same < len(branch.ids):
            return
        place, here = place + same, branch


def _hang(tree: _Branch, key: Key) -> None:
    ids, place, here = key[1], 0, tree
    for branch, same in list(_along(tree, ids)):
        if same < len(branch.ids):
            upper = _Branch(branch.ids[:same], {branch.ids[same]: branch})
            here.below[branch.ids[0]], branch.ids = upper, branch.ids[same:]
            branch = upper
        place, here = place + same, branch
    if place < len(ids):
        here.below[ids[place]] = here = _Branch(ids[place:])
    here.kept = key


def common(known: Sequence[int], ids: Sequence[int]) -> int:
    """How many tokens two sequences begin with alike, leaving at least one of `ids`."""
    return min(_alike(known, ids), len(ids) - 1)


def _alike(one: Sequence[int], other: Sequence[int]) -> int:
    most = min(len(one), len(other))
    if tuple(one[:most]) == tuple(other[:most]):
        return most
    return next(place for place in range(most) if one[place] != other[place])

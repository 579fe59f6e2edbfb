"""Rows of the cache kept after their request is done: the next turn of a conversation begins with this one.

A row belongs to the weights that computed it: what one version kept is never a beginning for another.
"""

from __future__ import annotations

from collections import OrderedDict

from torch import Tensor

SHORTEST = 16
"""A shared beginning shorter than this is computed again rather than copied."""


Key = tuple[str, tuple[int, ...]]
"""Whose row it is (an adapter's digest, "" for the plain weights) and its ids."""


class Prefixes:
    """The most recently finished rows, within a bound of tokens in all."""

    def __init__(self, most_tokens: int) -> None:
        self._most = most_tokens
        self._held = 0
        self._rows: OrderedDict[Key, tuple[Tensor, Tensor]] = OrderedDict()

    def find(self, ids: list[int], owner: str = "") -> tuple[tuple[Tensor, Tensor], int] | None:
        """The kept row of `owner` sharing the longest beginning with `ids` and how many tokens it shares, always
        leaving one to read."""
        best, shared = None, SHORTEST - 1
        for known in self._rows:
            if known[0] == owner and (count := common(known[1], ids)) > shared:
                best, shared = known, count
        if best is None:
            return None
        self._rows.move_to_end(best)
        return self._rows[best], shared

    def keep(self, ids: list[int], row: tuple[Tensor, Tensor], owner: str = "") -> None:
        """Keep a row, letting go of the ones longest unused, and of one that this continues."""
        key = (owner, tuple(ids))
        if len(ids) > self._most:
            return
        for known in [known for known in self._rows if known[0] == owner and known[1] == key[1][: len(known[1])]]:
            self._drop(known)
        while self._rows and self._held + len(ids) > self._most:
            self._drop(next(iter(self._rows)))
        self._rows[key] = row
        self._held += len(ids)

    def forget(self, owner: str) -> None:
        """Let go of all rows of one owner."""
        for known in [known for known in self._rows if known[0] == owner]:
            self._drop(known)

    def _drop(self, key: Key) -> None:
        del self._rows[key]
        self._held -= len(key[1])


def common(known: tuple[int, ...], ids: list[int]) -> int:
    """How many tokens two sequences begin with alike, leaving at least one of `ids`."""
    most = min(len(known), len(ids) - 1)
    if known[:most] == tuple(ids[:most]):
        return most
    return next((i for i in range(most) if known[i] != ids[i]), most)

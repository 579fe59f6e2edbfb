"""A place: where a request stands on its rollout's tree, and which ids the model has seen until there."""

from __future__ import annotations

from silva.models.gateway.entry import Entry
from silva.models.gateway.index import TreeIndex
from silva.models.gateway.keys import Key
from silva.tree import Message


class Place:
    """Where a request stands on the tree. `keys` are the keys of its messages,
    `messages` the request's with what is on the tree as it was recorded."""

    __slots__ = ("_reached", "_tools", "keys", "messages")

    def __init__(
        self,
        messages: tuple[Message, ...],
        keys: tuple[Key, ...] = (),
        reached: tuple[TreeIndex, Entry] | None = None,
        tools: str = "",
    ) -> None:
        self.messages = messages
        self.keys = keys
        self._reached = reached
        self._tools = tools

    def known(self) -> tuple[tuple[int, ...], tuple[Message, ...], bool]:
        """The exact ids up to the last sampled turn among what is on the tree (none where they are not known), the
        messages they stand for as they were recorded, and whether those were said under the request's tools."""
        if self._reached is None:
            return (), (), True
        index, entry = self._reached
        seen, last = index.seen(entry)
        if not seen or last is None:
            return (), (), True
        return seen, tuple(step.message for step in last.walk()), last.tools == self._tools

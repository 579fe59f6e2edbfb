"""One node as the index of its tree keeps it.

node, as it was written ─▶ Entry under its parent's ─▶ walk, turn, root; and, of a reply, what tells of it
"""

from __future__ import annotations

from collections.abc import Hashable

from silva.models.gateway.keys import Key
from silva.models.gateway.seen import SeenIds
from silva.tree import Author, Node, decode
from silva.tree.copies import REPEATS, copy_of
from silva.tree.exact import RESTART

ENTRY_BYTES = 1200
"""What an entry takes besides what it says, roughly."""


class Entry:
    """One node as the index keeps it. `tools` is the key of the tools in force after it, `changed` whether they changed
    here; `slot` is "" for nodes all rollouts of the task share; `copy_of` is the id of the turn that it is a copy of
    ("": of none), `told` what tells of it as an original, `talk` the root of the conversation it belongs to, whose
    beginning may have been rewritten since. The node itself is kept as it was written, and read
    when somebody wants it: its ids alone, as numbers of Python's, would take ten times the room."""

    __slots__ = (
        "_root",
        "_written",
        "changed",
        "copy_of",
        "depth",
        "id",
        "loose",
        "message",
        "parent",
        "place",
        "restart",
        "sampled",
        "seen",
        "size",
        "slot",
        "talk",
        "told",
        "tools",
    )

    def __init__(
        self,
        node: Node,
        written: bytes,
        parent: Entry | None,
        tools: str,
        slot: str,
        key: Key,
    ) -> None:
        self.id = node.id
        self.parent = parent
        # A first entry that held itself would be a cycle, which a process that looks for cycles seldom keeps for hours.
        self._root: Entry | None = None if parent is None else parent.root
        self.depth = node.depth
        self.message = node.message
        self.slot = node.slot
        self.tools = tools
        self.changed = node.tools is not None
        self.sampled = node.author is Author.POLICY
        self.restart = node.attributes.get("tokens") == RESTART
        above = "" if parent is None else parent.id
        self.place = (above, slot, key.exact)
        self.copy_of = copy_of(node)
        own = self.sampled or REPEATS in node.attributes
        self.loose: tuple[str, str, Hashable] | None = (above, slot, key.loose) if own else None
        """Where it is found by what a client makes of it; None for all that is not the policy's own words."""
        self.told: tuple[Hashable, ...] = ()
        self.talk = ""
        self.seen: SeenIds | None = None
        self.size = ENTRY_BYTES + 2 * len(written) + len(key.exact)
        self._written = written

    @property
    def root(self) -> Entry:
        """The first entry of its walk."""
        return self._root or self

    @property
    def node(self) -> Node:
        """The node."""
        return decode(self._written)  # pyright: ignore[reportReturnType]

    def walk(self) -> list[Entry]:
        """The entries from the root to this one."""
        path: list[Entry] = []
        entry: Entry | None = self
        while entry is not None:
            path.append(entry)
            entry = entry.parent
        path.reverse()
        return path

    @property
    def stands_for(self) -> str:
        """The id of the sampled turn it is, or is a copy of; "" where it is neither."""
        return self.id if self.sampled else self.copy_of

    @property
    def spoke(self) -> Entry | None:
        """The last entry of its walk that stands for a turn, be it this one."""
        entry: Entry | None = self
        while entry is not None and not entry.stands_for:
            entry = entry.parent
        return entry

    @property
    def turn(self) -> Entry | None:
        """The last sampled turn of its walk, be it this one."""
        entry: Entry | None = self
        while entry is not None and not entry.sampled:
            entry = entry.parent
        return entry

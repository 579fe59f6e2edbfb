"""The index of one tree: which turns it holds, found again by what they say.

    messages of a request ─▶ match: from the root, as far as the words agree ─▶ Match (entry reached, messages left)

A client sends back what it was given, not what was sampled: JSON of arguments is re-serialised, thinking is left out,
ends are stripped. So turns are found by `content_key`, which looks past these; the ids stay those of the node.

The lake has all of it, so what has not been touched for long may be dropped (`drop`); the index then is `partial`, and
who finds a conversation missing in it loads the tree again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Sequence

import msgspec

from silva.models.gateway.seen import SeenIds
from silva.models.held import Held
from silva.tree import Author, Message, Node, Tool, decode, digest, encode, seen_ids
from silva.tree.exact import RESTART

ENTRY_BYTES = 1200
"""What an entry takes besides what it says, roughly."""

_encode = msgspec.msgpack.Encoder(order="deterministic").encode


def tools_key(tools: tuple[Tool, ...]) -> str:
    """What two equal sets of tools share."""
    return digest(_encode(tools)) if tools else ""


def own_slot(name: str) -> str:
    """The slot of a rollout from a node's: a second sample of the same words stands in `0.0~2`."""
    return name.partition("~")[0]


class Entry:
    """One node as the index keeps it. `tools` is the key of the tools in force after it, `changed` whether they changed
    here; `slot` is "" for nodes all rollouts of the task share. The node itself is kept as it was written, and read
    when somebody wants it: its ids alone, as numbers of Python's, would take ten times the room."""

    __slots__ = (
        "_root",
        "_written",
        "changed",
        "depth",
        "id",
        "message",
        "parent",
        "place",
        "restart",
        "sampled",
        "seen",
        "size",
        "slot",
        "tools",
    )

    def __init__(
        self, node: Node, written: bytes, parent: Entry | None, tools: str, place: tuple[str, str, Hashable]
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
        self.place = place
        self.seen: SeenIds | None = None
        self.size = ENTRY_BYTES + 2 * len(written)
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
    def turn(self) -> Entry | None:
        """The last sampled turn of its walk, be it this one."""
        entry: Entry | None = self
        while entry is not None and not entry.sampled:
            entry = entry.parent
        return entry


class TreeIndex:
    """The turns of one tree.

    Args:
        tree_id: the tree's.
        key: gives the content key of a message (`dialects.content.content_key`).
        held: counts what it holds together with others.
    """

    def __init__(self, tree_id: str, key: Callable[[Message], Hashable], held: Held | None = None) -> None:
        self.tree_id = tree_id
        self.entries: dict[str, Entry] = {}
        self.key = key
        self.partial = False
        self.size = 0
        self._held = held or Held()
        self._found: tuple[str, Sequence[Hashable], str, tuple[Entry | None, int]] | None = None
        """What was looked for last and what it was, for as long as nothing has come or gone."""
        self._children: dict[tuple[str, str, Hashable], list[Entry]] = {}
        self._walks: OrderedDict[str, list[Entry]] = OrderedDict()

    def match(self, slot: str, keys: Sequence[Hashable], tools: str) -> tuple[Entry | None, int]:
        """The deepest entry that a conversation reaches (by the content keys of its messages), and how many of its
        messages that covers.

        Of several turns with the same words the latest is taken, so that a client which asked twice goes on from what
        it was told last. A prompt under other tools is another prompt; a conversation that has begun goes on although
        its tools change.
        """
        last = self._found
        if last is not None and last[1] is keys and last[0] == slot and last[2] == tools:
            return last[3]
        found = self._follow(slot, keys, tools)
        if found[0] is None or not found[0].slot:
            begun = self._follow(slot, keys, None)
            if begun[0] is not None and begun[0].slot:
                found = begun
        self._found = (slot, keys, tools, found)
        return found

    def _follow(self, slot: str, keys: Sequence[Hashable], tools: str | None) -> tuple[Entry | None, int]:
        reached: Entry | None = None
        covered = 0
        for key in keys:
            found = self._child(reached, slot, key, tools)
            if found is None:
                break
            reached = found
            covered += 1
        return reached, covered

    def _child(self, parent: Entry | None, slot: str, key: Hashable, tools: str | None) -> Entry | None:
        """The child of `parent` that says this, in this slot or shared, under tools that are not others (None: any)."""
        above = "" if parent is None else parent.id
        for place in (slot, "") if slot else ("",):
            for entry in reversed(self._children.get((above, place, key), ())):
                if tools is None or not entry.changed or entry.tools == tools:
                    return entry
        return None

    def add(self, node: Node, written: bytes, parent: Entry | None, key: Hashable = None) -> Entry:
        """Take in a node, as it is and as it was written, under its parent's entry; `key` is its content key where the
        caller has it."""
        known = self.entries.get(node.id)
        if known is not None:
            self._walks.move_to_end(known.root.id)
            return known
        before = "" if parent is None else parent.tools
        tools = before if node.tools is None else tools_key(node.tools)
        above = "" if parent is None else parent.id
        place = (above, own_slot(node.slot), self.key(node.message) if key is None else key)
        entry = Entry(node, written, parent, tools, place)
        self._found = None
        self.entries[node.id] = entry
        self._children.setdefault(place, []).append(entry)
        self._walks.setdefault(entry.root.id, []).append(entry)
        self._walks.move_to_end(entry.root.id)
        self._count(entry.size)
        return entry

    def seen(self, entry: Entry) -> tuple[tuple[int, ...] | None, Entry | None]:
        """The exact ids the model has seen and sampled along the walk to an entry, and the last sampled turn, where
        they end. None where a turn lacks its ids."""
        turn = entry.turn
        if turn is None:
            return (), None
        if turn.seen is None:
            ids = seen_ids(step.node for step in _turns(turn))
            if ids is None:
                return None, None
            self._see(turn, SeenIds(tuple(ids)))
        assert turn.seen is not None
        return turn.seen.ids, turn

    def move_on(self, entry: Entry, node: Node) -> None:
        """A turn was taken: what its walk has seen until then goes with it."""
        before = None if entry.parent is None else entry.parent.turn
        if before is None or before.seen is None:
            return
        seen = before.seen
        self._see(before, None)
        if node.tokens is not None and "tokens" not in node.attributes:
            seen.extend(node.tokens.ids)
            self._see(entry, seen)

    def _see(self, entry: Entry, seen: SeenIds | None) -> None:
        more = (0 if seen is None else seen.size) - (0 if entry.seen is None else entry.seen.size)
        entry.seen = seen
        entry.size += more
        if self.entries.get(entry.id) is entry:
            self._count(more)

    def load(self, nodes: Iterable[Node]) -> None:
        """Take in stored nodes of this tree, in any order; those whose parent is missing are left out."""
        for node in sorted(nodes, key=lambda node: (node.depth, node.started)):
            if node.parent_id is None:
                self.add(node, encode(node), None)
            elif node.parent_id in self.entries:
                self.add(node, encode(node), self.entries[node.parent_id])
        self.partial = False

    def drop(self, size: int) -> None:
        """Drop what was touched longest ago, until so many bytes are left or only what was touched last is."""
        self._found = None
        while self.size > size and len(self._walks) > 1:
            _, entries = self._walks.popitem(last=False)
            self.partial = True
            for entry in entries:
                del self.entries[entry.id]
                alike = self._children[entry.place]
                alike.remove(entry)
                if not alike:
                    del self._children[entry.place]
                self._count(-entry.size)

    def clear(self) -> None:
        """Let go of everything. A turn in flight may still add to it; nobody counts that any more, nor takes it off."""
        self._found = None
        self._count(-self.size)
        self._held = Held()

    def _count(self, size: int) -> None:
        self.size += size
        self._held.bytes += size


def _turns(turn: Entry) -> list[Entry]:
    """The sampled turns of a walk since it began anew, in order."""
    found: list[Entry] = []
    entry: Entry | None = turn
    while entry is not None:
        if entry.sampled:
            found.append(entry)
            if entry.restart:
                break
        entry = entry.parent
    found.reverse()
    return found

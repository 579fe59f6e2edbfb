"""The index of one tree: which turns it holds, found again by what they say.

    messages of a request ─▶ match: from the root, as far as the words agree ─▶ Match (entry reached, messages left)

A client sends back what it was given, not what was sampled: JSON of arguments is re-serialised, thinking is left out,
ends are stripped. So turns are found by `content_key`, which looks past these; the ids stay those of the node.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence

import msgspec

from silva.tree import Author, Message, Node, Tokens, Tool, digest
from silva.tree.exact import RESTART

_encode = msgspec.msgpack.Encoder(order="deterministic").encode


def tools_key(tools: tuple[Tool, ...]) -> str:
    """What two equal sets of tools share."""
    return digest(_encode(tools)) if tools else ""


def own_slot(name: str) -> str:
    """The slot of a rollout from a node's: a second sample of the same words stands in `0.0~2`."""
    return name.partition("~")[0]


class Entry:
    """One node as the index keeps it. `tools` is the key of the tools in force after it, `changed` whether they changed
    here; `slot` is "" for nodes all rollouts of the task share."""

    __slots__ = ("changed", "depth", "id", "message", "parent", "restart", "sampled", "slot", "tokens", "tools")

    def __init__(
        self,
        node_id: str,
        parent: Entry | None,
        message: Message,
        slot: str,
        tools: str,
        changed: bool,
        tokens: Tokens | None,
        sampled: bool,
        restart: bool,
    ) -> None:
        self.id = node_id
        self.parent = parent
        self.depth = 0 if parent is None else parent.depth + 1
        self.message = message
        self.slot = slot
        self.tools = tools
        self.changed = changed
        self.tokens = tokens
        self.sampled = sampled
        self.restart = restart

    def walk(self) -> list[Entry]:
        """The entries from the root to this one."""
        path: list[Entry] = []
        entry: Entry | None = self
        while entry is not None:
            path.append(entry)
            entry = entry.parent
        path.reverse()
        return path

    def seen(self) -> tuple[tuple[int, ...] | None, Entry | None]:
        """The exact ids the model has seen and sampled along the walk here, and the last sampled turn, where they end.
        None where a turn lacks its ids."""
        pieces: list[tuple[int, ...]] = []
        last: Entry | None = None
        entry: Entry | None = self
        while entry is not None:
            if entry.tokens is not None:
                last = last or entry
                pieces.append(entry.tokens.ids)
                if entry.restart:
                    break
            elif entry.sampled:
                return None, None
            entry = entry.parent
        pieces.reverse()
        return tuple(number for piece in pieces for number in piece), last


class TreeIndex:
    """The turns of one tree. `key` gives the content key of a message (`dialects.content.content_key`)."""

    def __init__(self, tree_id: str, key: Callable[[Message], Hashable]) -> None:
        self.tree_id = tree_id
        self.entries: dict[str, Entry] = {}
        self.key = key
        self._children: dict[tuple[str, str, Hashable], list[Entry]] = {}

    def match(self, slot: str, keys: Sequence[Hashable], tools: str) -> tuple[Entry | None, int]:
        """The deepest entry that a conversation reaches (by the content keys of its messages), and how many of its
        messages that covers.

        Of several turns with the same words the latest is taken, so that a client which asked twice goes on from what
        it was told last. A prompt under other tools is another prompt; a conversation that has begun goes on although
        its tools change.
        """
        found = self._follow(slot, keys, tools)
        if found[0] is None or not found[0].slot:
            begun = self._follow(slot, keys, None)
            if begun[0] is not None and begun[0].slot:
                return begun
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

    def add(self, node: Node, parent: Entry | None, key: Hashable = None) -> Entry:
        """Take in a node under its parent's entry; `key` is its content key where the caller has it."""
        known = self.entries.get(node.id)
        if known is not None:
            return known
        before = "" if parent is None else parent.tools
        tools = before if node.tools is None else tools_key(node.tools)
        entry = Entry(
            node.id,
            parent,
            node.message,
            node.slot,
            tools,
            node.tools is not None,
            node.tokens,
            node.author is Author.POLICY,
            node.attributes.get("tokens") == RESTART,
        )
        self.entries[node.id] = entry
        above = "" if parent is None else parent.id
        place = (above, own_slot(node.slot), self.key(node.message) if key is None else key)
        self._children.setdefault(place, []).append(entry)
        return entry

    def load(self, nodes: Iterable[Node]) -> None:
        """Take in stored nodes of this tree, in any order; those whose parent is missing are left out."""
        for node in sorted(nodes, key=lambda node: (node.depth, node.started)):
            if node.parent_id is None:
                self.add(node, None)
            elif node.parent_id in self.entries:
                self.add(node, self.entries[node.parent_id])

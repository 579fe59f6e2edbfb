"""The index of one tree: which turns it holds, found again by what they say.

    messages of a request ─▶ match: from the root, as far as the words agree ─▶ Match (entry reached, messages left)
                                 └ an assistant message among those left ─▶ original: the turn it is a copy of

A client sends back what it was given, not what was sampled: JSON of arguments is re-serialised, thinking is left out,
ends are stripped. So the policy's own turns are found by the loose half of their key, which looks past these; the ids
stay those of the node. All else is found by what it says, to the byte: what a client says is what the model is asked.

The lake has all of it, so what has not been touched for long may be dropped (`drop`); the index then is `partial`, and
who finds a conversation missing in it loads the tree again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import msgspec

from silva.models.gateway.entry import Entry
from silva.models.gateway.keys import Key, message_key
from silva.models.gateway.originals import Original, Originals
from silva.models.gateway.seen import SeenIds
from silva.models.held import Held
from silva.tree import Message, Node, Tool, digest, encode, seen_ids

_encode = msgspec.msgpack.Encoder(order="deterministic").encode


def tools_key(tools: tuple[Tool, ...]) -> str:
    """What two equal sets of tools share."""
    return digest(_encode(tools)) if tools else ""


def own_slot(name: str) -> str:
    """The slot of a rollout from a node's: a second sample of the same words stands in `0.0~2`."""
    return name.partition("~")[0]


class TreeIndex:
    """The turns of one tree.

    Args:
        tree_id: the tree's.
        held: counts what it holds together with others.
    """

    def __init__(self, tree_id: str, held: Held | None = None) -> None:
        self.tree_id = tree_id
        self.entries: dict[str, Entry] = {}
        self.partial = False
        self.size = 0
        self._held = held or Held()
        self._found: tuple[str, Sequence[Key], str, tuple[Entry | None, int]] | None = None
        """What was looked for last and what it was, for as long as nothing has come or gone."""
        self._children: dict[tuple[str, str, bytes], list[Entry]] = {}
        self._replies: dict[tuple[str, str, Hashable], list[Entry]] = {}
        self._originals = Originals()
        self._walks: OrderedDict[str, list[Entry]] = OrderedDict()

    def match(self, slot: str, keys: Sequence[Key], tools: str) -> tuple[Entry | None, int]:
        """The deepest entry that a conversation reaches (by the keys of its messages), and how many of its
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

    def original(
        self, slot: str, message: Message, key: Key, parent: Entry | None, before: str, *, placed: bool
    ) -> Original | None:
        """The sampled turn of a rollout that an assistant message stands for, which was not found in its place.

        Args:
            slot: the rollout's.
            message: what a client sent.
            key: its key.
            parent: the entry that it follows, where it is known (`placed`).
            before: the id of the turn before it in its conversation.
            placed: whether `parent` is what it follows.
        """
        above = ("" if parent is None else parent.id) if placed else None
        return self._originals.find(slot, message, key, above, before)

    def _follow(self, slot: str, keys: Sequence[Key], tools: str | None) -> tuple[Entry | None, int]:
        reached: Entry | None = None
        covered = 0
        for key in keys:
            last = covered == len(keys) - 1  # a reply that was begun for the model is what the client began
            found = self._child(reached, slot, key.exact, None if last else key.loose, tools)
            if found is None:
                break
            reached = found
            covered += 1
        return reached, covered

    def _child(
        self, parent: Entry | None, slot: str, exact: bytes, loose: Hashable | None, tools: str | None
    ) -> Entry | None:
        """The child of `parent` that says this, in this slot or shared, under tools that are not others (None: any);
        else the policy's own that a client may have made `loose` of."""
        above = "" if parent is None else parent.id
        for place in (slot, "") if slot else ("",):
            for entry in reversed(self._children.get((above, place, exact), ())):
                if tools is None or not entry.changed or entry.tools == tools:
                    return entry
        if loose is not None:
            for entry in reversed(self._replies.get((above, slot, loose), ())):
                if tools is None or not entry.changed or entry.tools == tools:
                    return entry
        return None

    def add(self, node: Node, written: bytes, parent: Entry | None, key: Key | None = None) -> Entry:
        """Take in a node, as it is and as it was written, under its parent's entry; `key` is its key where the caller
        has it."""
        known = self.entries.get(node.id)
        if known is not None:
            self._walks.move_to_end(known.root.id)
            return known
        before = "" if parent is None else parent.tools
        tools = before if node.tools is None else tools_key(node.tools)
        key = message_key(node.message) if key is None else key
        slot = own_slot(node.slot)
        entry = Entry(node, written, parent, tools, slot, key)
        entry.talk = self._talk(entry)
        self._found = None
        self.entries[node.id] = entry
        self._children.setdefault(entry.place, []).append(entry)
        if entry.loose is not None:
            self._replies.setdefault(entry.loose, []).append(entry)
        if entry.sampled:
            before = None if parent is None else parent.spoke
            self._originals.add(entry, slot, key.loose, "" if before is None else before.stands_for)
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
        stored = sorted(nodes, key=lambda node: (node.depth, node.started))
        for node in stored:
            if node.parent_id is None:
                self.add(node, encode(node), None)
            elif node.parent_id in self.entries:
                self.add(node, encode(node), self.entries[node.parent_id])
        for node in sorted(stored, key=lambda node: (node.started, node.depth)):  # a copy may stand above its original
            if (entry := self.entries.get(node.id)) is not None:
                entry.talk = self._talk(entry)
        self.partial = False

    def _talk(self, entry: Entry) -> str:
        copied = self.entries.get(entry.copy_of)
        if copied is not None:
            return copied.talk
        before = None if entry.parent is None else entry.parent.spoke
        return entry.root.id if before is None else before.talk

    def drop(self, size: int) -> None:
        """Drop what was touched longest ago, until so many bytes are left or only what was touched last is."""
        self._found = None
        while self.size > size and len(self._walks) > 1:
            _, entries = self._walks.popitem(last=False)
            self.partial = True
            for entry in entries:
                del self.entries[entry.id]
                _forget(self._children, entry.place, entry)
                if entry.loose is not None:
                    _forget(self._replies, entry.loose, entry)
                self._originals.remove(entry)
                self._count(-entry.size)

    def clear(self) -> None:
        """Let go of everything. A turn in flight may still add to it; nobody counts that any more, nor takes it off."""
        self._found = None
        self._count(-self.size)
        self._held = Held()

    def _count(self, size: int) -> None:
        self.size += size
        self._held.bytes += size


def _forget(places: dict[Any, list[Entry]], place: Hashable, entry: Entry) -> None:
    alike = places[place]
    alike.remove(entry)
    if not alike:
        del places[place]


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

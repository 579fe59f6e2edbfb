"""The sampled node that an assistant message stands for, where a client did not send the reply back in its place.

message ─▶ the ids of its calls, which the gateway gave out ─┐
        ─▶ its words, behind another beginning               ├─▶ Original (entry, same words?)
        ─▶ its thinking, which clients send back untouched   │
        ─▶ its place: where a reply was given before         │
        ─▶ its order: behind the turn that came before it   ─┘
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import NamedTuple

from silva.models.gateway.entry import Entry
from silva.models.gateway.keys import Key
from silva.tree import Message


class Original(NamedTuple):
    """A sampled turn, and whether a message says what it said: to the byte, or by what a client makes of a reply where
    more tells of it than the words, which a client may have put into the model's mouth itself."""

    entry: Entry
    same: bool


class Originals:
    """The sampled turns of a tree, by what tells of them. Slots are those of rollouts."""

    def __init__(self) -> None:
        self._found: dict[Hashable, list[Entry]] = {}

    def add(self, entry: Entry, slot: str, loose: Hashable, before: str) -> None:
        """Take in a sampled turn; `before` is the id of the turn before it ("" for the first)."""
        entry.told = tuple(_tells(entry, slot, loose, before))
        for name in entry.told:
            self._found.setdefault(name, []).append(entry)

    def remove(self, entry: Entry) -> None:
        """Let go of a turn."""
        for name in entry.told:
            alike = self._found[name]
            alike.remove(entry)
            if not alike:
                del self._found[name]

    def find(self, slot: str, message: Message, key: Key, parent: str | None, before: str) -> Original | None:
        """The turn that a message stands for.

        Args:
            slot: the rollout's; others are not looked at.
            message: an assistant's.
            key: its key.
            parent: the id of the entry that it follows ("" at the root), None where it follows what is not there yet.
            before: the id of the turn that comes before it in its conversation ("" where none does).
        """

        words, behind = ("words", slot, key.loose), ("behind", slot, before)
        called = [entry for call in message.tool_calls for entry in self._of("call", slot, call.id)]
        same = [entry for entry in called if words in entry.told]
        spoke = self._of(*words) if message.tool_calls or message.text.strip() else ()
        thought = self._of("thought", slot, message.thinking) if message.thinking else ()
        for candidates in (same, called, spoke, thought):
            if candidates:
                found = next((each for each in candidates if behind in each.told), candidates[-1])
                sure = candidates is not spoke or (before != "" and behind in found.told)
                return Original(found, words in found.told and (sure or found.place[2] == key.exact))
        placed = () if parent is None else self._of("at", slot, parent)
        ordered = self._of(*behind) if before else ()
        found = (placed or ordered or (None,))[-1]
        return None if found is None else Original(found, False)

    def _of(self, *name: Hashable) -> Sequence[Entry]:
        return self._found.get(name, ())


def _tells(entry: Entry, slot: str, loose: Hashable, before: str) -> Iterator[Hashable]:
    yield "words", slot, loose
    yield "at", slot, "" if entry.parent is None else entry.parent.id
    yield "behind", slot, before
    if thinking := entry.message.thinking:
        yield "thought", slot, thinking
    for name in dict.fromkeys(call.id for call in entry.message.tool_calls if call.id):
        yield "call", slot, name

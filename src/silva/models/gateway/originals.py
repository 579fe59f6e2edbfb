"""The sampled node that an assistant message stands for, where a client did not send the reply back in its place.

message ─▶ the ids of its calls, which the gateway gave out ─┐
        ─▶ its words, behind another beginning               ├─▶ Original (entry, same words?)
        ─▶ its place: where a reply was given before         │
        ─▶ its order: behind the turn that came before it   ─┘
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import NamedTuple

from silva.models.gateway.entry import Entry
from silva.models.gateway.keys import Key
from silva.tree import Message


class Original(NamedTuple):
    """A sampled turn, and whether a message still says what it said."""

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

        def same(entry: Entry) -> bool:
            return ("words", slot, key.loose) in entry.told

        called = [entry for call in message.tool_calls for entry in self._of("call", slot, call.id)]
        spoke = [] if _empty(message) else self._of("words", slot, key.loose)
        for candidates in (_both(called, same), called, spoke):
            if candidates:
                found = next((each for each in candidates if ("behind", slot, before) in each.told), candidates[-1])
                return Original(found, same(found))
        placed = [] if parent is None else self._of("at", slot, parent)
        ordered = self._of("behind", slot, before) if before else []
        for candidates in (placed, ordered):
            if candidates:
                return Original(candidates[-1], same(candidates[-1]))
        return None

    def _of(self, *name: Hashable) -> Sequence[Entry]:
        return self._found.get(name, ())


def _tells(entry: Entry, slot: str, loose: Hashable, before: str) -> Iterator[Hashable]:
    yield "words", slot, loose
    yield "at", slot, "" if entry.parent is None else entry.parent.id
    yield "behind", slot, before
    for name in dict.fromkeys(call.id for call in entry.message.tool_calls if call.id):
        yield "call", slot, name


def _both(entries: Sequence[Entry], same: Callable[[Entry], bool]) -> list[Entry]:
    return [entry for entry in entries if same(entry)]


def _empty(message: Message) -> bool:
    return not message.tool_calls and not message.text.strip()

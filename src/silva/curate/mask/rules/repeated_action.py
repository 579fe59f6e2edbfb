"""Repeated action: the same call as in the turn before, and the same answer: nothing was learnt from it."""

from __future__ import annotations

from collections.abc import Iterable

from silva.curate.mask.kinds import Kinds
from silva.curate.mask.rule import Finding
from silva.curate.turn import Turn, Walk


class RepeatedAction:
    """An action that repeats one of the last turns, answer included, with nothing but looking in between. Commands are
    compared by what they do: a comment that counts up makes none another. Waiting again is no repetition."""

    name = "repeated-action"
    summary = "the same action again, and the same answer"

    def __init__(self, kinds: Kinds) -> None:
        self._kinds = kinds

    def find(self, walk: Walk) -> Iterable[Finding]:
        """See `Rule`."""
        seen: dict[str, Turn] = {}
        for turn in walk.turns:
            if turn.words:
                seen.clear()  # a person may ask for it again
            key = self._key(turn)
            waits = bool(turn.calls) and all(self._kinds.of(call.name) == "wait" for call in turn.calls)
            before = seen.get(key)
            if before is not None and not waits and not turn.is_last and before.observation == turn.observation:
                yield Finding(turn, f"the same as turn {before.number}, with the same answer")
            looks = bool(turn.calls) and not any(self._kinds.changes(call) for call in turn.calls)
            if not looks:
                seen = {}
            seen[key] = turn

    def _key(self, turn: Turn) -> str:
        if turn.calls:
            return "\n".join(self._kinds.deed(call) if call.arguments is not None else str(call) for call in turn.calls)
        return turn.action.message.text.strip()

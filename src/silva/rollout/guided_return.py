"""Going back: what an attempt that was left says of it, and where the next one begins.

    back to turn k ─▶ WentBack ─▶ the attempt ends, superseded, its record says where to ─▶ the same place's next
    attempt takes up the walk before turn k, brings an environment there, and goes on

The record of the attempt that was left is one append with its last turns, so a kill finds either an episode that has
not heard the word or one that has gone back. The next attempt is made of that record alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from silva.errors import StoreError
from silva.rollout.guided_nodes import BACK
from silva.rollout.slots import Remembered, Slot
from silva.tree import Message, Node, Record, Trajectory


class WentBack(Exception):
    """The episode ends here: a person goes back to one of its turns."""


class Return(Record, frozen=True, kw_only=True):
    """One going back, as the record of the attempt that was left has it.

    `turn` is the turn gone back to, from 1; `node` the last node before it, which the next attempt begins behind;
    `instead_of` the action that stood there. `word`, `kind` (back or edit), `by`, `at` (Unix seconds), `why` and `text`
    (words for the agent) are the person's; `action`, where given, is taken first. `heard` are the words that were heard
    until then.
    """

    turn: int
    node: str
    instead_of: str
    word: str
    kind: str
    by: str
    at: float
    why: str = ""
    text: str = ""
    action: Message | None = None
    heard: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """The word's id."""
        return self.word

    @property
    def pattern(self) -> str:
        """It forbids nothing."""
        return ""

    def attributes(self) -> dict[str, Any]:
        """What the trajectory's record says."""
        return {BACK: msgspec.to_builtins(self)}


@dataclass(frozen=True, slots=True)
class Start:
    """Where an attempt begins after a person went back: the nodes up to there, the summaries made on the way, what was
    said, and how many attempts at the place were left in all."""

    back: Return
    walk: tuple[Node, ...]
    summaries: tuple[Node, ...]
    times: int


def start_of(remembered: Remembered, place: Slot) -> Start | None:
    """Where an attempt begins; None at the task's beginning.

    Raises:
        StoreError: the record of the attempt that was left cannot be read, or its nodes are not there.
    """
    left: Sequence[Trajectory] = remembered.left(place)
    if not left:
        return None
    last = left[-1]
    try:
        back = msgspec.convert(last.attributes[BACK], Return)
        walk, summaries = remembered.walk_to(place.tree_id, back.node)
    except (msgspec.ValidationError, KeyError) as error:
        raise StoreError(
            f"trajectory {last.id[:12]}: a person went back from it, and where to cannot be read; silva lake doctor"
        ) from error
    return Start(back=back, walk=tuple(walk), summaries=tuple(summaries), times=len(left))

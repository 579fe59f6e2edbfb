"""The explorer: who walks again where a signal points, and how it takes its turns there.

    contexts (walk, action, what to look at) ─▶ exploring ─▶ shoots at those actions ─▶ a run of branches ─▶ walks
                                                    ▲
                          Explorer.playing, .words ─┘

Walking is the engine's: an explorer only says how its turns are taken, so that every one of them is kept on the tree,
survives a kill and carries exact ids like any other.
"""

from __future__ import annotations

from typing import Protocol

from silva.rollout.config import RolloutConfig
from silva.tree import Record, Task


class Context(Record, frozen=True, kw_only=True):
    """Where to explore. `trajectory`: the walk; `node`: the action of it in whose place another is taken, or behind
    which it goes on (`behind`; "": chosen by the exploration, spread over the walk); `signal`, `signal_id`: why there;
    `focus`: in words, what to look at; `evidence`: in words, what was seen there."""

    trajectory: str
    node: str = ""
    behind: bool = False
    signal: str = ""
    signal_id: str = ""
    focus: str = ""
    evidence: str = ""


class Explorer(Protocol):
    """How an exploration takes its turns. Implementations are `silva.loops.roles.Implementation`s of role `explorer`.

    `name` is what acted; `model` whom it asks besides the policy ("": nobody), `prompt` the digest of its words.
    """

    name: str
    model: str
    prompt: str

    def playing(self, base: RolloutConfig) -> RolloutConfig:
        """The configuration of a run of branches, changed to how this explorer acts.

        Args:
            base: the policy that is to learn, its hosts and its budget.
        """
        ...

    def words(self, context: Context, task: Task) -> str:
        """What is said to whoever acts, before its first turn there; "" for nothing."""
        ...

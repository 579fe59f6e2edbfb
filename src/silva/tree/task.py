"""A task: what an environment can be reset to. A tree grows from one task."""

from __future__ import annotations

from typing import Any

import msgspec

from silva.tree.message import Json, Record
from silva.tree.node import digest

GIVEN = "given id: "
"""How the tag begins that holds the id by which an environment knows a task, where the run had to call it otherwise."""


class Task(Record, frozen=True, kw_only=True, tag_field="kind", tag="task"):
    """One problem of one environment.

    `id` is unique across environments and stable across machines (`bfcl/multi_turn_base_3`). `data` is whatever the
    environment's `reset` needs, as plain JSON. `instruction` is for people and search; the environment decides what
    the agent is shown. Of two tasks of one run that have one id the second is called by another, and its environment
    knows it as `given`.

    `run_id` is the run that owns it, once it is kept: another run's task of the same id may ask something else. It is
    empty while a task is nobody's yet, and in what older versions kept.

    `born`, of a task that was made of a walk or drawn by a role, says how it came about, was validated and admitted
    (`silva.loops.roles.born`); its environment is not told, and it is no part of what the task is.
    """

    id: str
    env: str
    instruction: str = ""
    split: str = "test"
    data: Json = msgspec.field(default_factory=dict[str, Any])
    tags: tuple[str, ...] = ()
    run_id: str = ""
    born: Json | None = None

    def owned_by(self, run_id: str) -> Task:
        """The task as that run's own."""
        return self if self.run_id == run_id else msgspec.structs.replace(self, run_id=run_id)

    @property
    def content(self) -> str:
        """What the task is, as a digest: the same for the same task in every run."""
        return digest("task", msgspec.msgpack.encode(self._bare, order="sorted"))

    @property
    def _bare(self) -> Task:
        return self if not self.run_id and self.born is None else msgspec.structs.replace(self, run_id="", born=None)

    @property
    def given(self) -> Task:
        """The task as its environment knows it."""
        known = next((tag.removeprefix(GIVEN) for tag in self.tags if tag.startswith(GIVEN)), "")
        if not known:
            return self._bare
        tags = tuple(tag for tag in self.tags if not tag.startswith(GIVEN))
        return msgspec.structs.replace(self, id=known, tags=tags, run_id="", born=None)

    def renamed(self, id: str) -> Task:
        """The same task under another id."""
        return msgspec.structs.replace(self, id=id, tags=(*self.tags, f"{GIVEN}{self.id}"))

"""The tasks that rounds made for themselves, as they stand in the lake."""

from __future__ import annotations

from silva.lake import Lake
from silva.loops.kernel.loop import Loop
from silva.loops.roles.born import Born, born
from silva.loops.sport.config import SportConfig
from silva.tree import Task


def made_for(loop: Loop[SportConfig], number: int) -> list[Task]:
    """The tasks of a round."""
    return [task for task, said in told(loop, number) if said.verdict == "accepted"]


def told(loop: Loop[SportConfig], number: int) -> list[tuple[Task, Born]]:
    """All that were made for a round, refused ones too; none where it makes none."""
    found = loop.outputs(f"round-{number}.synthesise")
    if found is None:
        return []
    with Lake.open(loop.lake, mode="read") as lake:
        return born(lake, str(found["run"]))

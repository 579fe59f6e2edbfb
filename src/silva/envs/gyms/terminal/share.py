"""How many tasks of a folder can be played here without docker, and why the others cannot.

folder ─▶ task folders ─▶ read, recipe ─▶ Share: each task with its reason
"""

from __future__ import annotations

from pathlib import Path

from silva.envs.gyms.terminal import harbor
from silva.envs.gyms.terminal.dockerfile import recipe
from silva.errors import UsageError
from silva.tree import Record


class Playable(Record, frozen=True, kw_only=True):
    """One task: whether its recipe is understood whole, and if not, what is not."""

    name: str
    playable: bool
    reason: str = ""


class Share(Record, frozen=True, kw_only=True):
    """All of them: `playable` `of` so many."""

    playable: int
    of: int
    tasks: tuple[Playable, ...]


def share(place: str) -> Share:
    """Look at every task folder at a place; nothing is built or installed.

    Raises:
        UsageError: there is none.
    """
    tasks = tuple(map(_playable, harbor.folders(Path(place).expanduser())))
    return Share(playable=sum(task.playable for task in tasks), of=len(tasks), tasks=tasks)


def _playable(folder: Path) -> Playable:
    try:
        recipe(harbor.read(folder))
    except UsageError as error:
        return Playable(name=folder.name, playable=False, reason=str(error).removeprefix(f"task {folder.name}: "))
    return Playable(name=folder.name, playable=True)

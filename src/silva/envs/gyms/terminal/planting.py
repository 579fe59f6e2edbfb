"""Words of somebody else in a file of the workspace: a README that lies where the task starts."""

from __future__ import annotations

import shlex

from silva.envs.gyms.terminal.world import World
from silva.envs.protocol import Planted
from silva.errors import UsageError
from silva.tree import assistant, call

FILE = "README.md"
_MOST = 1 << 20


async def planted(world: World, surface: str, words: str) -> Planted:
    """Put words into the file; one that is there already goes on with them."""
    if surface != "file":
        return Planted(why="a terminal has files, and no pages or windows")
    path = f"{world.places.folder}/{FILE}"
    try:
        before = await world.sandbox.get(path, most=_MOST)
    except UsageError:
        before = b""
    try:
        await world.sandbox.put((before + b"\n" if before else b"") + f"{words}\n".encode(), path)
    except UsageError as error:
        return Planted(why=str(error))
    name = world.places.named(path)
    look = assistant("", call("session_run", {"command": f"cat {shlex.quote(name)}"}))
    return Planted(where=name, look=look)

"""Words of somebody else in a file of the workspace: a README that lies where the task starts."""

from __future__ import annotations

import shlex

from silva.envs.gyms.terminal.world import World
from silva.envs.protocol import Planted
from silva.tree import assistant, call

FILE = "README.md"


async def planted(world: World, surface: str, words: str) -> Planted:
    """Put words into the file; one that is there already goes on with them."""
    if surface != "file":
        return Planted(why="a terminal has files, and no pages or windows")
    path = f"{world.places.folder}/{FILE}"
    line = 'if [ -s "$1" ]; then echo >> "$1"; fi && cat >> "$1"'
    done = await world.sandbox.exec(["sh", "-c", line, "sh", path], stdin=f"{words}\n".encode())
    if not done.ok:
        return Planted(why=f"{path} cannot be written: {done.stderr.decode(errors='replace').strip()[:200]}")
    name = world.places.named(path)
    look = assistant("", call("session_run", {"command": f"cat {shlex.quote(name)}"}))
    return Planted(where=name, look=look)

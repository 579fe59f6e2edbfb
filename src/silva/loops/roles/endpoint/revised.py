"""A workspace whose file, as the program left it, is kept in a file of this machine: what a program that evolves wrote.

`data.keep` names the file in the folder, `data.into` the one it is copied to, of at most a curation's size.
"""

from __future__ import annotations

from pathlib import Path

from silva.curate.curation.source import MOST_SOURCE
from silva.envs.gyms.workspace import Workspace
from silva.envs.protocol import Evaluation


class Revised(Workspace):
    """See the module."""

    async def evaluate(self) -> Evaluation:
        """1 where the file is there and was kept, else 0."""
        kept = self._kept()
        return Evaluation(score=float(kept), success=kept)

    def _kept(self) -> bool:
        left = self._folder / str(self._data["keep"]) if self._folder is not None else None
        if left is None or left.is_symlink() or not left.is_file():
            return False
        with left.open("rb") as file:
            Path(str(self._data["into"])).write_bytes(file.read(MOST_SOURCE + 1))
        return True

"""A curation's memory bank, as an agent is given it: while it is measured, while it practises, and in rows it learns
from.

FOLDER/banks/DIGEST/    the bank of the data of that digest
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

from silva.curate.curation.corpus import asked
from silva.curate.curation.curated import Curated
from silva.curate.curation.memory import write_bank
from silva.curate.rows import Row
from silva.loops.curateevo.config import CurateEvoConfig
from silva.loops.kernel.loop import Loop
from silva.models.embedding import open_embedder
from silva.rollout.skills import Retrieval
from silva.rollout.skills.stage import given


class Memories:
    """The memories of a curation's data; none where it has none.

    Args:
        loop: in whose folder the bank is kept.
        data: of a curation.
        curation: its digest.
    """

    def __init__(self, loop: Loop[CurateEvoConfig], data: Curated, curation: str) -> None:
        self._config = loop.config
        self._folder = loop.folder / "banks" / data.digest[:12]
        self._some = bool(data.memory)
        if self._some:
            write_bank(self._folder, data.memory, curation)

    def stages(self) -> dict[str, Any]:
        """Fields of a rollout's configuration by which its agents are given them."""
        if not self._some:
            return {}
        how = self._config.memory
        return {"stages": {"skills": {"bank": str(self._folder), "top": how.top, "least": how.least}}}

    def text(self, row: Row, words: str = "") -> str:
        """What a policy would be shown at the opening of a walk; "" where nothing fits it."""
        if not self._some:
            return ""
        env = row.trajectory.env if row.trajectory is not None else self._config.env
        found = self._retrieval.find(env, words or asked(row.nodes))
        return given(found) if found else ""

    @cached_property
    def _retrieval(self) -> Retrieval:
        from silva.rollout.skills import Bank

        how = self._config.memory
        return Retrieval(Bank(self._folder).kept(), open_embedder("hashed"), top=how.top, least=how.least)

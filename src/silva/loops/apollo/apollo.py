"""An APOLLO loop with its folder, and its beginning: `apollo(config)`. A folder that holds it goes on where it was."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import yaml

from silva.loops.apollo.config import ApolloConfig
from silva.loops.apollo.plan import stages
from silva.loops.flywheel.flywheel import Watch, drive
from silva.loops.flywheel.loop import CONFIG, Loop
from silva.loops.flywheel.plan import Stage


class ApolloLoop(Loop):
    """An APOLLO loop."""

    form: ClassVar[type[ApolloConfig]] = ApolloConfig
    worker: ClassVar[str] = "silva.loops.apollo.worker"
    command: ClassVar[str] = "silva loop apollo"
    config: ApolloConfig

    def stages(self) -> list[Stage]:
        """Its plan."""
        return stages(self.config)

    def playing(self) -> dict[str, Any]:
        """Summaries are made wherever its policy plays."""
        return {"summary": self.config.summary.model_dump(mode="json")}


def apollo(config: ApolloConfig, watch: Watch = lambda stage, entry: None) -> ApolloLoop:
    """Begin an APOLLO loop, or go on with the one in the configuration's folder, to its end.

    Raises:
        UsageError, StageError, StoreError: as `silva.loops.flywheel.flywheel.turn`.
    """
    return drive(config.folder, lambda: ApolloLoop(config), watch)


def read_loop(folder: Path) -> Loop:
    """The loop of a folder, of whichever kind it is.

    Raises:
        UsageError: it holds none.
        StoreError: what it holds is damaged.
    """
    try:
        said: Any = yaml.safe_load((folder / CONFIG).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        return Loop.read(folder)  # which says what is wrong
    mine = isinstance(said, dict) and said.get("loop") == "apollo"
    return ApolloLoop.read(folder) if mine else Loop.read(folder)

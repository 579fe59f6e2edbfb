"""A loop on disk: its folder, its configuration as it began, and what its stages gave.

FOLDER/loop.yaml       the configuration          FOLDER/results/    a stage's outputs, as its worker left them
       ledger.jsonl    what happened              FOLDER/pieces/     what a stage made one by one
       progress.json   what the stage that runs has come to
       lake/           trees, versions            FOLDER/report.html
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Generic, TypeVar

import msgspec
import yaml

from silva.errors import StoreError
from silva.lake.durable import refusals, write_whole
from silva.loops.kernel.config import LoopConfig
from silva.loops.kernel.ledger import StageLedger
from silva.loops.kernel.stage import Stage
from silva.tree import Json

CONFIG = "loop.yaml"
REPORT = "report.html"

C = TypeVar("C", bound=LoopConfig, covariant=True)


class Loop(Generic[C]):
    """A loop of any kind with its folder; `C` is its configuration.

    Args:
        config: of the loop.
        plan: its stages, in the order in which they run.

    Raises:
        StoreError: its ledger is damaged.
    """

    def __init__(self, config: C, plan: Sequence[Stage]) -> None:
        self._config = config
        self.folder = config.folder
        self.lake = config.lake_location
        self.plan = list(plan)
        self.ledger = StageLedger(self.folder)

    @property
    def config(self) -> C:
        """Its configuration."""
        return self._config

    def keep_config(self) -> None:
        """Write the configuration into the folder.

        Raises:
            StoreError: the disk refused.
        """
        values = self.config.model_dump(mode="json")
        with refusals(f"loop {self.folder}"):
            write_whole(self.folder / CONFIG, yaml.safe_dump(values, sort_keys=False, allow_unicode=True).encode())

    def outputs(self, name: str) -> Json | None:
        """The outputs of a stage that has ended; None where it has not, or was skipped."""
        entry = self.ledger.over().get(name)
        return entry.outputs if entry is not None and entry.event == "ended" else None

    def given(self, name: str) -> Json:
        """The outputs of a stage that must have ended.

        Raises:
            StoreError: it has not: the ledger is of another plan.
        """
        found = self.outputs(name)
        if found is None:
            raise StoreError(f"loop {self.folder}: stage {name} has not ended; begin the loop in a new folder")
        return found

    def result_file(self, stage: Stage) -> Path:
        """Where a stage's worker leaves its outputs."""
        return self.folder / "results" / f"{stage.name}.json"

    def result(self, stage: Stage) -> Json | None:
        """What a stage's worker left; None where it left nothing, or something of another configuration.

        Raises:
            StoreError: what it left cannot be read.
        """
        try:
            said = msgspec.json.decode(self.result_file(stage).read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
            raise StoreError(f"{self.result_file(stage)}: cannot be read ({error}); remove it, and go on") from error
        return said["outputs"] if said["inputs"] == stage.inputs else None

    def keep_result(self, stage: Stage, outputs: Json) -> None:
        """Leave a stage's outputs, whole and durable.

        Raises:
            StoreError: the disk refused.
        """
        data = msgspec.json.format(msgspec.json.encode({"inputs": stage.inputs, "outputs": outputs}))
        with refusals(f"loop {self.folder}"):
            write_whole(self.result_file(stage), data)

    def run_name(self, stage: Stage, more: str = "") -> str:
        """The name of a stage's run in the lake."""
        return f"{self.config.line}.{stage.name}{f'.{more}' if more else ''}"

    def round_folder(self, stage: Stage) -> Path:
        """The folder of a stage's round."""
        return self.folder / "rounds" / str(stage.round)

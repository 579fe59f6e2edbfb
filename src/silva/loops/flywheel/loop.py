"""A loop on disk: its folder, its configuration as it began, and what its stages gave.

FOLDER/loop.yaml       the configuration          FOLDER/sets/       data sets and task files
       ledger.jsonl    what happened              FOLDER/rounds/N/   samples, training
       results/        a stage's outputs, as its worker left them    FOLDER/policies/   versions as folders
       lake/           trees, versions            FOLDER/report.html
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Self

import msgspec
import yaml
from pydantic import ValidationError

from silva.errors import StoreError, UsageError
from silva.lake.durable import refusals, write_whole
from silva.loops.flywheel.config import FlywheelConfig
from silva.loops.flywheel.ledger import StageLedger
from silva.loops.flywheel.plan import Stage, stages
from silva.train.registry import Registry
from silva.tree import Json

CONFIG = "loop.yaml"
REPORT = "report.html"


class Loop:
    """A flywheel with its folder. Other loops are kinds of it: `form` is their configuration, `worker` the module that
    runs a stage of theirs, `command` what begins them.

    Args:
        config: of the loop.

    Raises:
        StoreError: its ledger is damaged.
    """

    form: ClassVar[type[FlywheelConfig]] = FlywheelConfig
    worker: ClassVar[str] = "silva.loops.flywheel.worker"
    command: ClassVar[str] = "silva loop flywheel"

    def __init__(self, config: FlywheelConfig) -> None:
        self.config = config
        self.folder = config.folder
        self.lake = config.lake_location
        self.plan = self.stages()
        self.ledger = StageLedger(self.folder)

    def stages(self) -> list[Stage]:
        """Its plan."""
        return stages(self.config)

    def playing(self) -> dict[str, Any]:
        """What its rollouts and measures are told besides, as fields of `RolloutConfig`."""
        return {}

    @classmethod
    def read(cls, folder: Path) -> Self:
        """The loop of a folder.

        Raises:
            UsageError: it holds none.
            StoreError: what it holds is damaged.
        """
        try:
            said: Any = yaml.safe_load((folder / CONFIG).read_text(encoding="utf-8"))
            config = cls.form.model_validate({**said, "folder": str(folder)})
        except FileNotFoundError as error:
            raise UsageError(f"folder {folder}: holds no loop (no {CONFIG}); begin one with {cls.command}") from error
        except (OSError, yaml.YAMLError, ValidationError, TypeError) as error:
            words = " ".join(str(error).split())[:200]
            raise StoreError(f"folder {folder}: {CONFIG} cannot be read ({words}); restore it from a copy") from error
        return cls(config)

    def keep_config(self) -> None:
        """Write the configuration into the folder.

        Raises:
            StoreError: the disk refused.
        """
        values = self.config.model_dump(mode="json")
        with refusals(f"loop {self.folder}"):
            write_whole(self.folder / CONFIG, yaml.safe_dump(values, sort_keys=False, allow_unicode=True).encode())

    def registry(self) -> Registry:
        """The registry of its lake."""
        return Registry.open(self.lake, make=True)

    # What stages gave

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

    def head(self, before: Stage | None = None) -> str:
        """The version that plays when a stage runs, or in the end: the last one promoted before it, or the base; the
        base too where a proof took the head back, be it that rounds were added then."""
        base = name = str(self.given("base")["version"])
        for number in range(1, (before.round if before else 0) or len(self.config.rounds) + 1):
            found = self.outputs(f"round-{number}.judge")
            if found is not None and found["promoted"]:
                name = str(found["candidate"])
            proof = self.outputs(f"prove-after-{number}")  # once the loop's end
            if proof is not None and proof["rolled_back"]:
                name = base
        return name

    def result_file(self, stage: Stage) -> Path:
        """Where a stage's worker leaves its outputs."""
        return self.folder / "results" / f"{stage.name}.json"

    def result(self, stage: Stage) -> Json | None:
        """What a stage's worker left; None where it left nothing, or something of another configuration."""
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

    # Names

    def run_name(self, stage: Stage, more: str = "") -> str:
        """The name of a stage's run in the lake."""
        return f"{self.config.line}.{stage.name}{f'.{more}' if more else ''}"

    def round_folder(self, stage: Stage) -> Path:
        """The folder of a stage's round."""
        return self.folder / "rounds" / str(stage.round)

    def part_file(self, part: str) -> Path:
        """The data set of a part: the expert's attempts at its tasks."""
        return self.folder / "sets" / f"{part}.jsonl"

    def task_file(self, name: str) -> Path:
        """A file of tasks: those of a part, or those chosen for a stage."""
        return self.folder / "sets" / f"{name}.tasks.jsonl"

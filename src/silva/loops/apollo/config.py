"""What an APOLLO loop is asked to do, typed. What it shares with other loops stands in `silva.loops.line.config`."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, field_validator, model_validator

from silva.curate.mask.config import JudgeConfig as MaskJudge
from silva.curate.mask.config import MaskConfig
from silva.curate.mask.kinds import Kinds
from silva.curate.mask.rules import NAMES
from silva.errors import UsageError
from silva.loops.apollo.script import ScriptedRules, read_script
from silva.loops.kernel.config import Section
from silva.loops.line.config import LineConfig, RoundConfig
from silva.rollout.config import GuidanceConfig, SummaryConfig
from silva.train.config import AlgorithmConfig


class MaskingConfig(Section):
    """Which turns carry no loss: by which rules, and a model judge where one is named; as in `silva curate mask`."""

    rules: tuple[str, ...] = NAMES
    errors: tuple[str, ...] = ()
    kinds: Kinds = Kinds()
    judge: MaskJudge = MaskJudge()

    def of(self, lake: str, run: str) -> MaskConfig:
        """The masking of one run of a lake."""
        return MaskConfig.model_validate({**self.model_dump(), "lake": lake, "run": (run,)})

    @model_validator(mode="after")
    def _sound(self) -> MaskingConfig:
        self.of("lake", "run")  # refuses unknown rules and what is no pattern
        return self


class CopiesConfig(Section):
    """How often a row counts, by its kind: the paper's factors (section 4.1). 0 leaves a kind out."""

    actions: int = Field(default=7, ge=0)
    summary: int = Field(default=10, ge=0)


class ApolloRound(RoundConfig):
    """One round, as a flywheel's. `source: policy` is guided and masked; `source: expert` takes the expert's attempts,
    to begin with. `select.least_reward` leaves out attempts below it."""

    algorithm: AlgorithmConfig = AlgorithmConfig.model_validate({"name": "sft"})

    @model_validator(mode="after")
    def _imitates(self) -> ApolloRound:
        if self.algorithm.name != "sft":
            raise ValueError(f"algorithm {self.algorithm.name}: APOLLO imitates kept actions: sft")
        return self


class ApolloConfig(LineConfig):
    """One APOLLO loop. `guidance` and `masking` are the paper's ablations. `person` is a scripted person, as it stands
    or a file of it; without one people may speak, with `silva guide`, to the runs named LINE.round-N.rollout.
    `approval` says which actions wait for the person while a round is played, as a rollout's `guidance` does. With
    `takeovers` actions that people took in the policy's place carry loss as its own do. `training: false` stops at the
    rows."""

    loop: Literal["apollo"] = "apollo"
    line: str = "apollo"
    guidance: bool = True
    person: ScriptedRules | None = None
    approval: GuidanceConfig = GuidanceConfig()
    takeovers: bool = False
    masking: bool = True
    mask: MaskingConfig = MaskingConfig()
    summary: SummaryConfig = SummaryConfig()
    copies: CopiesConfig = CopiesConfig()
    training: bool = True
    rounds: tuple[ApolloRound, ...] = Field(min_length=1)

    def playing(self) -> dict[str, object]:
        """Summaries are made wherever its policy plays."""
        return {"summary": self.summary.model_dump(mode="json")}

    @field_validator("person", mode="before")
    @classmethod
    def _from_a_file(cls, value: object) -> object:
        if not isinstance(value, str | Path):
            return value
        try:
            return read_script(Path(value))
        except UsageError as error:
            raise ValueError(str(error)) from error

    @model_validator(mode="after")
    def _who_hears(self) -> ApolloConfig:
        if self.play.on == "ray" and self.guidance:
            raise ValueError("play.on ray: episodes on Ray do not hear people; say guidance: false, or play.on: local")
        return self

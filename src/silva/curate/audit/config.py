"""What an audit is told."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from silva.curate.audit.checker import Settings
from silva.curate.audit.risks import known_risk
from silva.curate.rows.columns import Columns
from silva.errors import UsageError


class AuditConfig(BaseModel):
    """What is audited, by whom, and how strictly.

    `source`: a run, a file or a query, as `silva.curate.rows.read` takes it. `checkers`: names, families or risks,
    `-NAME` leaves one out; none: all. `alarms`: the share of clean rows that all checkers together may flag; None:
    each has its own threshold. `cards`: a folder of cards instead of the package's. `weights` replace those of risks
    in the score. `write`: findings are appended to the lake, where the source is one. `on`: `here`, or where Daft asks
    checkers of single rows about a Lance table (`silva.curate.daft.frame`), of which `columns` says what is read.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    source: str
    lake: str = ""
    where: str = ""
    limit: int | None = Field(default=None, ge=1)
    checkers: tuple[str, ...] = ()
    alarms: float | None = Field(default=0.05, ge=0, le=1)
    cards: Path | None = None
    settings: Settings = Settings()
    weights: dict[str, float] = {}
    write: bool = True
    workers: int = Field(default=1, ge=1, le=64)
    on: str = "here"
    columns: Columns = Columns()

    @model_validator(mode="after")
    def _table(self) -> AuditConfig:
        if self.on == "here" and self.columns.answer:
            raise ValueError("columns: those of a Lance table are read with --on daft; here rows are read as they are")
        if self.on != "here" and not self.columns.answer:
            raise ValueError(f"on={self.on}: name what is read: columns.answer=NAME, columns.question=NAME")
        if self.on != "here" and self.where:
            raise ValueError("where: a condition is for trajectories of a lake; select the table's rows before")
        return self

    @field_validator("weights")
    @classmethod
    def _known(cls, value: dict[str, float]) -> dict[str, float]:
        for name, weight in value.items():
            try:
                known_risk(name)
            except UsageError as error:
                raise ValueError(str(error)) from error
            if weight < 0:
                raise ValueError(f"the weight of {name} is below 0")
        return value

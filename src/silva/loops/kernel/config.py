"""What every loop's configuration says: its kind, its folder, its name, its lake and its seed."""

from __future__ import annotations

import re
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, field_validator

LINE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,44}")
"""A line's name; it stands twice in the name of a measuring run, LINE.test.LINE-NUMBER, which has at most 100."""


class Section(BaseModel):
    """A part of the configuration: unknown keys are refused, values are fixed once read."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class LoopConfig(Section):
    """What the kernel reads of a configuration. `loop` is the kind's name; `folder` holds all of it; `line` names its
    versions (LINE-1, LINE-2, …) and runs. `lake` is `FOLDER/lake` where none is named."""

    loop: str
    folder: Path
    line: str
    lake: str | None = None
    seed: int = Field(default=0, ge=0, lt=2**31)

    @field_validator("line")
    @classmethod
    def _line_name(cls, value: str) -> str:
        if not LINE.fullmatch(value) or re.search(r"-\d+$", value):
            raise ValueError(
                f"line {value!r}: letters, digits, '.', '_' and '-' only, at most 45, no -NUMBER at the end"
            )
        return value

    @property
    def lake_location(self) -> str:
        """Where its lake is."""
        return self.lake or str(self.folder / "lake")

"""What a release is asked to be, typed. From a YAML or TOML file plus dotted overrides."""

from __future__ import annotations

import re

from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression
from pydantic import BaseModel, ConfigDict, Field, field_validator

_PART = re.compile(r"[a-z][a-z0-9_]*")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class LeakConfig(BaseModel):
    """When two rows are copies of one another: of the `words`-word runs of the shorter one, the other holds at least
    the share `overlap`. Runs that more than `common` of all rows hold (a shared system prompt) tell nothing."""

    model_config = ConfigDict(extra="forbid")

    words: int = Field(default=13, ge=3)
    overlap: float = Field(default=0.5, gt=0, le=1)
    common: float = Field(default=0.2, gt=0, le=1)


class ReleaseConfig(BaseModel):
    """A release. `parts` names the source of each part (`train: RUN`), `held_out` what no part may hold, `lake` where
    runs and queries are looked for. `licence` is an SPDX name; it is never guessed. `limits` are known limits in a
    person's words, beside those that are found. `audit` is what `silva audit --json` wrote of the same rows."""

    model_config = ConfigDict(extra="forbid")

    name: str
    licence: str = Field(min_length=1)
    parts: dict[str, str] = Field(min_length=1)
    lake: str | None = None
    version: str = "1.0.0"
    description: str = ""
    creators: tuple[str, ...] = ()
    citation: str = ""
    language: tuple[str, ...] = ("en",)
    held_out: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()
    audit: str | None = None
    leak: LeakConfig = LeakConfig()
    lance: bool = True
    rows_a_file: int = Field(default=10_000, ge=1)

    @field_validator("name")
    @classmethod
    def _named(cls, name: str) -> str:
        if not _NAME.fullmatch(name):
            raise ValueError("letters, digits, dots, dashes and underscores, as a data set's name has them")
        return name

    @field_validator("licence")
    @classmethod
    def _licensed(cls, licence: str) -> str:
        try:
            return canonicalize_license_expression(licence)
        except InvalidLicenseExpression as error:
            raise ValueError(
                f"{licence!r} is no SPDX name; say one (CC-BY-4.0, Apache-2.0), or LicenseRef-NAME for a licence of "
                "your own"
            ) from error

    @field_validator("parts")
    @classmethod
    def _parted(cls, parts: dict[str, str]) -> dict[str, str]:
        for name in parts:
            if not _PART.fullmatch(name):
                raise ValueError(f"a part is called in small letters, digits and underscores, not {name!r}")
        return parts

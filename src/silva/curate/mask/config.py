"""What a masking run is told."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, field_validator

from silva.curate.mask.kinds import Kinds, expression
from silva.curate.mask.rules import NAMES


class Section(BaseModel):
    """Part of a configuration: unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class JudgeConfig(Section):
    """A model that judges. `model`: as `silva rollout --model` takes it; "" for no judge. It is shown `window` turns at
    a time, each cut to `chars` characters; `parallel` questions at once, each answered within `deadline` seconds."""

    model: str = ""
    window: int = Field(default=12, ge=1)
    chars: int = Field(default=2000, ge=100)
    task_chars: int = Field(default=6000, ge=100)
    parallel: int = Field(default=4, ge=1)
    deadline: float = Field(default=120.0, gt=0)
    max_tokens: int = Field(default=2000, ge=16)


class MaskConfig(Section):
    """Which runs are judged by which rules. `errors` are further regular expressions that tell an error; `kinds` say
    what tools do."""

    lake: str = "lake"
    run: tuple[str, ...] = Field(min_length=1)
    rules: tuple[str, ...] = NAMES
    errors: tuple[str, ...] = ()
    kinds: Kinds = Kinds()
    judge: JudgeConfig = JudgeConfig()

    @field_validator("rules")
    @classmethod
    def _known(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for name in value:
            if name not in NAMES:
                raise ValueError(f"no rule {name!r}: there are {', '.join(NAMES)}")
        return value

    @field_validator("errors")
    @classmethod
    def _compiles(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(map(expression, value))

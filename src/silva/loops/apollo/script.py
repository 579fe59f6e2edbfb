"""A script: what a scripted person says, and when. YAML; for tests, and for experiments without people.

by: coach                       # who speaks
rules:
  - name: look-first            # once in a trajectory, unless `times` says more
    when: {observation: "No such file"}
    say: "List the folder before you open a file."
  - when: {turn: 0}             # before the first turn
    forbid: "rm -rf"
    why: the data are not backed up
  - when: {rule: repeated-action}
    bad: true
    times: 0                    # every time
  - when: {every: 10}
    pause: 0.5                  # seconds
  - when: {turn: 30}
    stop: true
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from silva.curate.mask.kinds import expression
from silva.curate.mask.rules import NAMES
from silva.errors import UsageError

DEEDS = ("say", "pause", "stop", "forbid", "allow", "good", "bad")
"""What a rule may have the person do; one each."""


class Section(BaseModel):
    """Part of a script: unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class When(Section):
    """When a rule holds of a turn that has just ended; all that is given must. `turn` is its number, from 1 (0: before
    the first, where nothing else can hold); `every` divides it; `action` and `observation` are regular expressions
    looked for in the call and words, and in what came back; `rule` names a masking rule that faults it."""

    turn: int | None = Field(default=None, ge=0)
    every: int | None = Field(default=None, ge=1)
    action: str | None = None
    observation: str | None = None
    rule: str | None = None

    @field_validator("action", "observation")
    @classmethod
    def _compiles(cls, value: str | None) -> str | None:
        return _pattern(value)

    @field_validator("rule")
    @classmethod
    def _known(cls, value: str | None) -> str | None:
        if value is not None and value not in NAMES:
            raise ValueError(f"no rule {value!r}: there are {', '.join(NAMES)}")
        return value


class Rule(Section):
    """One thing the person does. `times`: at most so often in a trajectory; 0 for always."""

    name: str = ""
    when: When
    say: str | None = None
    pause: float | None = Field(default=None, gt=0)
    stop: bool = False
    forbid: str | None = None
    allow: str | None = None
    good: bool = False
    bad: bool = False
    why: str = ""
    times: int = Field(default=1, ge=0)

    @field_validator("forbid", "allow")
    @classmethod
    def _compiles(cls, value: str | None) -> str | None:
        return _pattern(value)

    @model_validator(mode="after")
    def _one_deed(self) -> Rule:
        given = [name for name in DEEDS if getattr(self, name)]
        if len(given) != 1:
            raise ValueError(f"give one of {', '.join(DEEDS)}; given: {', '.join(given) or 'none'}")
        if (self.good or self.bad) and self.when.turn == 0:
            raise ValueError("when.turn 0 is before the first turn: there is nothing to praise or blame")
        return self

    @property
    def deed(self) -> str:
        """What it has the person do."""
        return next(name for name in DEEDS if getattr(self, name))


class ScriptedRules(Section):
    """A whole script. `by` is who speaks."""

    by: str = "scripted person"
    rules: tuple[Rule, ...] = Field(min_length=1)

    def named(self) -> list[tuple[str, Rule]]:
        """The rules with their names; one without has its place."""
        return [(rule.name or f"rule {place}", rule) for place, rule in enumerate(self.rules, start=1)]

    @model_validator(mode="after")
    def _names_differ(self) -> ScriptedRules:
        names = [name for name, _ in self.named()]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ValueError(f"two rules are called {twice!r}")
        return self


def read_script(path: Path) -> ScriptedRules:
    """The script of a file.

    Raises:
        UsageError: it cannot be read, or is none; the message names the field.
    """
    try:
        said: Any = yaml.safe_load(path.read_text(encoding="utf-8"))
        return ScriptedRules.model_validate(said)
    except FileNotFoundError as error:
        raise UsageError(f"script {path}: no such file; give a YAML file of rules") from error
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"script {path}: cannot be read ({error})") from error
    except yaml.YAMLError as error:
        raise UsageError(f"script {path}: is not YAML ({' '.join(str(error).split())})") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the whole"
        raise UsageError(f"script {path}: {where}: {first['msg'].removeprefix('Value error, ')}") from error


def _pattern(value: str | None) -> str | None:
    return value if value is None else expression(value)

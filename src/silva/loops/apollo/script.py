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
  - when: {expert: another}     # the environment's expert would have acted otherwise: somebody who knows the way
    back: true
    times: 4
  - when: {every: 10}
    pause: 0.5                  # seconds
  - when: {observation: "Traceback"}
    back: {say: "Read the traceback first."}           # or an action: {name: run, arguments: {command: ls}}
  - when: {waits: delete}       # an action that waits for approval, for such a reason
    reject: true
    why: nothing is deleted here
  - when: {waits: ".", action: "curl"}
    edit: {name: run, arguments: {command: "wget -q out.csv"}}
  - when: {waits: "."}
    approve: true
    times: 0
  - when: {waits: ".", expert: another, every: 2}     # somebody who takes over at times: the expert's own action
    edit: {expert: true}
  - when: {turn: 30}
    stop: true
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from silva.curate.mask.kinds import expression
from silva.curate.mask.rules import NAMES
from silva.errors import UsageError
from silva.guide.action import action_of
from silva.guide.word import MOST_CHARS

EXPERT = '{"expert": true}'
"""In an action's place: what the environment's expert would do there."""

DECISIONS = ("approve", "reject", "edit")
"""What a person may do with an action that waits for approval."""

DEEDS = ("say", "pause", "stop", "forbid", "allow", "good", "bad", "back", *DECISIONS)
"""What a rule may have the person do; one each."""


class Section(BaseModel):
    """Part of a script: unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class When(Section):
    """When a rule holds of a turn that has just ended; all that is given must. `turn` is its number, from 1 (0: before
    the first, where nothing else can hold); `every` divides it; `action` and `observation` are regular expressions
    looked for in the call and words, and in what came back; `rule` names a masking rule that faults it; `expert` says
    whether the environment's expert would have taken the same action there, or another (it is asked before the turn).
    With `waits` it holds of an action that waits for approval instead: a regular expression looked for in the reasons
    why it waits (one that is looked for in the action stands in `action`); `expert` then compares that action."""

    turn: int | None = Field(default=None, ge=0)
    every: int | None = Field(default=None, ge=1)
    action: str | None = None
    observation: str | None = None
    rule: str | None = None
    expert: Literal["same", "another"] | None = None
    waits: str | None = None

    @field_validator("action", "observation", "waits")
    @classmethod
    def _compiles(cls, value: str | None) -> str | None:
        return _pattern(value)

    @field_validator("rule")
    @classmethod
    def _known(cls, value: str | None) -> str | None:
        if value is not None and value not in NAMES:
            raise ValueError(f"no rule {value!r}: there are {', '.join(NAMES)}")
        return value


class Back(Section):
    """Going back to `turn` (0: the one the rule holds of): with `say` for the agent, which chooses again, or an
    `action` that is taken there, or neither. The action `{expert: true}` is what the environment's expert would do."""

    turn: int = Field(default=0, ge=0)
    say: str = ""
    action: str = ""

    @field_validator("action", mode="before")
    @classmethod
    def _action(cls, value: object) -> str:
        return _action(value)

    @model_validator(mode="after")
    def _one_of_both(self) -> Back:
        if self.say and self.action:
            raise ValueError("going back takes an action or words for the agent, not both")
        if self.action == EXPERT and self.turn:
            raise ValueError("the expert is asked at the turn the rule holds of: leave turn out, or give an action")
        return self


class Rule(Section):
    """One thing the person does. `times`: at most so often in a trajectory, and going back so often at its place, all
    attempts together; 0 for always. Actions are as `silva guide back` takes them: plain words, or a call; or
    `{expert: true}`."""

    name: str = ""
    when: When
    say: str | None = None
    pause: float | None = Field(default=None, gt=0)
    stop: bool = False
    forbid: str | None = None
    allow: str | None = None
    good: bool = False
    bad: bool = False
    back: Back | None = None
    approve: bool = False
    reject: bool = False
    edit: str | None = None
    why: str = ""
    times: int = Field(default=1, ge=0)

    @field_validator("back", mode="before")
    @classmethod
    def _plainly(cls, value: object) -> object:
        return {} if value is True else None if value is False else value

    @field_validator("edit", mode="before")
    @classmethod
    def _action(cls, value: object) -> str | None:
        return None if value is None else _action(value)

    @field_validator("forbid", "allow")
    @classmethod
    def _compiles(cls, value: str | None) -> str | None:
        return _pattern(value)

    @model_validator(mode="after")
    def _one_deed(self) -> Rule:
        given = [name for name in DEEDS if getattr(self, name)]
        if len(given) != 1:
            raise ValueError(f"give one of {', '.join(DEEDS)}; given: {', '.join(given) or 'none'}")
        when = self.when
        if when.turn == 0 and (self.good or self.bad or self.back):
            raise ValueError(
                "when.turn 0 is before the first turn: there is nothing to praise or blame, or to go back to"
            )
        if (given[0] in DECISIONS) != (when.waits is not None):
            raise ValueError(
                f"when.waits goes with {', '.join(DECISIONS)}, and they with it: they decide on an action that waits"
            )
        if when.waits is not None and (when.turn == 0 or when.observation is not None or when.rule is not None):
            raise ValueError(
                "what waits has not been taken: when has turn (from 1), every, action and expert beside waits"
            )
        return self

    @property
    def deed(self) -> str:
        """What it has the person do."""
        return next(name for name in DEEDS if getattr(self, name))

    @property
    def actions(self) -> tuple[str, ...]:
        """The actions it has the person take."""
        return tuple(filter(None, (self.edit, self.back.action if self.back is not None else "")))

    @property
    def decides(self) -> bool:
        """Whether it is about an action that waits for approval."""
        return self.deed in DECISIONS


class ScriptedRules(Section):
    """A whole script. `by` is who speaks."""

    by: str = "scripted person"
    rules: tuple[Rule, ...] = Field(min_length=1)

    def named(self) -> list[tuple[str, Rule]]:
        """The rules with their names; one without has its place."""
        return [(rule.name or f"rule {place}", rule) for place, rule in enumerate(self.rules, start=1)]

    @property
    def asks(self) -> bool:
        """Whether it knows what the environment's expert would do."""
        return any(rule.when.expert is not None or EXPERT in rule.actions for rule in self.rules)

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


def _action(value: object) -> str:
    """An action as text, checked; "" for none."""
    if value is None or value == "":
        return ""
    if value in (EXPERT, json.loads(EXPERT)):  # as it is kept, or as it is written
        return EXPERT
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if len(text) > MOST_CHARS:
        raise ValueError(f"an action may hold {MOST_CHARS:,} characters")
    try:
        action_of(text, "script")
    except UsageError as error:
        raise ValueError(str(error)) from error
    return text


def _pattern(value: str | None) -> str | None:
    return value if value is None else expression(value)

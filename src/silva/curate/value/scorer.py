"""A scorer: one file, one class, one number a sample; registered by a decorator, or by an entry point of a package.

    @scorer
    class Mine(Scorer):
        name, summary = "mine", "what it measures, and what more of it means"
        def score(self, samples):
            return [Score(len(each.answer)) for each in samples]

A `Scorer` sees one sample at a time, so that what it said can be kept; a `SetScorer` sees all samples and what its
`parts` said of them. Modules in `silva.curate.value.scorers` are found by themselves; a package names its classes under
`silva.scorers`.
"""

from __future__ import annotations

import difflib
import importlib.util
import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from silva.curate.registry import Registry
from silva.curate.value.sample import NO_ANSWER, NO_QUESTION, NO_WALK, Sample, Samples
from silva.errors import UsageError
from silva.tree import digest

GROUP = "silva.scorers"
"""The group of entry points that name scorers of packages."""

Floats = np.ndarray[Any, np.dtype[np.float64]]


class Score(NamedTuple):
    """What a scorer says of a sample: a number, or None and the reason. With a number the note is a remark, such as
    that only a part was read. `keep`: whether it may be kept; what failed in passing is asked again."""

    value: float | None
    note: str = ""
    keep: bool = True


class Need(StrEnum):
    """What a sample must have to be scored."""

    TEXT = "text"
    PAIR = "pair"
    TRAJECTORY = "trajectory"


class Options(BaseModel):
    """What a scorer may be told: none of it, unless it says otherwise."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class AnyScorer(ABC):
    """What every scorer says of itself.

    `higher` says whether more of it is worth more. `Options` are what it may be told. `relies` names modules besides
    its own whose code changes what it says. `kept`: whether its scores are kept; what costs less than looking it up is
    not. `apart`: whether it is given to several processes. `heeds`: whether it reads what audits said of a walk.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    need: ClassVar[Need] = Need.TEXT
    higher: ClassVar[bool] = True
    Options: ClassVar[type[Options]] = Options
    relies: ClassVar[tuple[str, ...]] = ()
    kept: ClassVar[bool] = True
    apart: ClassVar[bool] = False
    heeds: ClassVar[bool] = False

    def __init__(self, options: Options | None = None) -> None:
        self.options: Any = options if options is not None else self.Options()

    def check(self) -> None:  # noqa: B027 - most need nothing
        """See that it can score here, before anything is computed.

        Raises:
            SilvaError: it cannot: what is missing, and what to name or install.
        """

    def model(self) -> str:
        """What tells the model it asks from any other: a digest of weights, or where it answers; "" for none."""
        return ""

    def worth(self, values: Floats) -> Floats:
        """Values so that more is worth more, to rank by."""
        return values if self.higher else -values

    def identity(self) -> str:
        """What its scores depend on besides the sample: code, options, model. Another identity, other scores."""
        modules = [each.__module__ for each in type(self).__mro__ if each not in (object, ABC)]
        code = [_code(name) for name in dict.fromkeys((*modules, *self.relies))]
        return digest(self.name, self.options.model_dump_json(), self.model(), *code)

    def lacking(self, sample: Sample) -> str:
        """Why it cannot score a sample at all; "" where it can."""
        if self.need is Need.TRAJECTORY:
            return "" if sample.row is not None and sample.row.trajectory is not None else NO_WALK
        if not sample.answer.strip():
            return NO_ANSWER
        return NO_QUESTION if self.need is Need.PAIR and not sample.question.strip() else ""


class Scorer(AnyScorer):
    """Says a number of each sample by itself."""

    @abstractmethod
    def score(self, samples: Sequence[Sample]) -> Sequence[Score]:
        """The score of each of some samples, in order; all of them have what it needs.

        Raises:
            SilvaError: nothing more can be scored: an endpoint that is gone, or does not give what is needed.
        """


class SetScorer(AnyScorer):
    """Says a number of each sample by what the others are. `parts` are scorers whose scores it reads."""

    kept = False
    parts: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def score(self, samples: Samples, parts: Mapping[str, Floats]) -> Sequence[Score]:
        """The score of each sample, in order. `parts`: what each part's scores are worth, NaN where there is none."""


@cache
def _code(module: str) -> str:
    """The digest of a module's source, which is not imported for it: what it needs may take seconds."""
    loaded = sys.modules.get(module)
    found = getattr(loaded, "__spec__", None) or importlib.util.find_spec(module)
    file = Path(found.origin) if found is not None and found.origin else None
    return digest(module, file.read_bytes() if file is not None and file.is_file() else b"")


_Class = TypeVar("_Class", bound=type[AnyScorer])
_REGISTRY: Registry[type[AnyScorer]] = Registry(
    "value", "scorers", "silva.curate.value.scorers", GROUP, (Scorer, SetScorer)
)


def scorer(made: _Class) -> _Class:
    """Register a class of scorers under its name.

    Raises:
        UsageError: another class has that name.
    """
    _REGISTRY.add(made)
    return made


def scorers() -> dict[str, type[AnyScorer]]:
    """All classes of scorers, by name.

    Raises:
        UsageError: a package's scorer cannot be loaded, or is none.
    """
    return _REGISTRY.all()


def make(name: str, options: Mapping[str, Any] | None = None) -> Scorer | SetScorer:
    """The scorer of a name, told its options; it is not checked yet.

    Raises:
        UsageError: there is no such scorer, or it has no such option.
    """
    known = scorers()
    if name not in known:
        near = difflib.get_close_matches(name, known, 1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise UsageError(f"there is no scorer {name!r}: {hint}there are {', '.join(known)}")
    try:
        told = known[name].Options.model_validate(dict(options or {}))
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"]))
        able = ", ".join(known[name].Options.model_fields) or "none"
        raise UsageError(f"options.{name}.{field}: {first['msg']}; its options are {able}") from error
    made = known[name](told)
    assert isinstance(made, Scorer | SetScorer)
    return made


def finite(score: Score) -> Score:
    """The score, or why it is none: what is no finite number is no score."""
    if score.value is None or math.isfinite(score.value):
        return score
    return Score(None, f"the scorer gave {score.value}, which is no score")

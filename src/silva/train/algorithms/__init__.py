"""Algorithms: losses over samples, and rules that turn rewards into advantages. No engine, no I/O, no tree.

    group of samples ─▶ score: advantages, or Dropped          (numpy; `advantages`)
    chosen, rejected ─▶ Preference: same context, loss where it belongs   (numpy; `preference`)
    what a teacher said ─▶ aligned: of these ids, or refused    (numpy; `teacher`)
    samples + logprobs of the model ─▶ collate ─▶ Batch ─▶ algorithm.loss ─▶ Loss        (torch)
                                                                            │
        a step cut into batches: Totals.of(all its samples) goes into each; their losses and metrics add up

Each algorithm is one file that names its paper: `sft`, `dpo`, `grpo`, `opd`. Importing this loads neither of them, and
no torch; `algorithm(name, parameters)` does.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from pydantic import TypeAdapter, ValidationError

from silva.errors import MissingError, UsageError
from silva.train.algorithms.algorithm import Algorithm
from silva.train.algorithms.need import Need

ALGORITHMS = {"sft": "SFT", "dpo": "DPO", "grpo": "GRPO", "opd": "OPD"}
"""Each algorithm's name, which is its module's, and its class."""


def algorithm(name: str, parameters: Mapping[str, Any] | None = None) -> Algorithm:
    """The algorithm of that name with these parameters.

    Raises:
        UsageError: no such algorithm, a parameter it does not have, or a value out of range.
        MissingError: torch is not installed.
    """
    known = ALGORITHMS.get(name)
    if known is None:
        raise UsageError(f"algorithm {name!r}: there is none of that name; there are {', '.join(ALGORITHMS)}")
    try:
        import_module("torch")
    except ImportError as error:
        raise MissingError(f"{name} needs torch: pip install 'silva[train]'") from error
    kind = getattr(import_module(f"silva.train.algorithms.{name}"), known)
    try:
        return TypeAdapter(kind).validate_python(dict(parameters or {}))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        said = first["msg"].removeprefix("Value error, ")
        raise UsageError(f"algorithm {name}{': ' + where if where else ''}: {said}") from error


__all__ = ["ALGORITHMS", "Algorithm", "Need", "algorithm"]

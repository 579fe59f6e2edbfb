"""The defences there are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from silva.redteam.defences.approval import Approval
from silva.redteam.defences.classifier import Classifier, ModelClassifier
from silva.redteam.defences.defence import Defence
from silva.redteam.defences.dual_model import DualModel
from silva.redteam.defences.sinks import Sinks
from silva.redteam.defences.spotlight import Datamarking, Delimiting
from silva.redteam.defences.tool_filter import ToolFilter
from silva.redteam.packaged import found, table

DEFENCES: tuple[Defence, ...] = (
    Delimiting(),
    Datamarking(),
    ToolFilter(),
    Classifier(),
    ModelClassifier(),
    Sinks(),
    Approval(),
    DualModel(),
)
"""The defences there are without a package."""

NEED_A_MODEL = ("model_classifier", "dual_model")


def defences() -> dict[str, Defence]:
    """All defences there are, by name."""
    return table(DEFENCES, Defence)


def defence(name: str, options: Mapping[str, Any]) -> Defence:
    """The defence of that name, with its options.

    Raises:
        UsageError: there is none.
        ValueError: an option is not known or cannot be.
    """
    known = found("defence", name, defences())
    if name in NEED_A_MODEL and not options.get("model"):
        raise ValueError(f"defence {name}: name the model that judges (model)")
    if not options:
        return known
    try:
        return type(known)(**options)
    except TypeError as error:
        raise ValueError(f"defence {name}: {error}") from error

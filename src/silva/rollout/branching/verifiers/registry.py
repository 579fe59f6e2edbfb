"""The verifiers that are installed, by name: entry points of the group `silva.verifiers`, each a class.

NAME, options ─▶ entry point ─▶ class(**options) ─▶ Verifier
"""

from __future__ import annotations

import sys
from functools import cache
from importlib import metadata
from typing import Any

from silva.errors import UsageError
from silva.rollout.branching.verifiers.verifier import Verifier

GROUP = "silva.verifiers"
"""The group of entry points that name verifiers."""


def known() -> list[str]:
    """The names of those that are installed."""
    return sorted(_installed(tuple(sys.path)))


def make(name: str, options: dict[str, Any] | None = None) -> Verifier:
    """A verifier for one episode.

    Raises:
        UsageError: none of that name is installed, or it refuses its options.
    """
    point = _installed(tuple(sys.path)).get(name)
    if point is None:
        raise UsageError(f"verifier {name!r}: is not installed; there are: {', '.join(known()) or 'none'}")
    try:
        return point.load()(**(options or {}))
    except UsageError as error:
        raise UsageError(f"verifier {name}: {error}") from error
    except Exception as error:
        text = " ".join(str(error).split())
        raise UsageError(f"verifier {name}: cannot be made of its options: {type(error).__name__}: {text}") from error


@cache
def _installed(path: tuple[str, ...]) -> dict[str, metadata.EntryPoint]:
    return {point.name: point for point in metadata.entry_points(group=GROUP)}

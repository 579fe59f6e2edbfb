"""Scores of Inspect AI and the outcome of a trajectory, both ways.

    scores {"scorer": {"value": "C" | 0.5 | {…}}}, error, limit ─▶ Outcome          Outcome ─▶ scores, results

"C", "P", "I" and "N" are Inspect's correct, partial, incorrect and no answer: 1, 0.5, 0, 0. The first scorer's value is
the score. An error is filed at the boundary its model event or its kind shows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from silva.tree.formats.rows import as_list, as_object, number
from silva.tree.message import Json
from silva.tree.outcome import Boundary, Failure, Outcome, Status

_LETTERS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}


def outcome_of(sample: Json) -> Outcome:
    """How a sample ended."""
    metrics: dict[str, float] = {}
    score: float | None = None
    success: bool | None = None
    for scorer, said in as_object(sample.get("scores")).items():
        value: Any = as_object(said).get("value")
        for name, found in _values(scorer, value):
            metrics[name] = found
            if score is None and 0 <= found <= 1:
                score = found
                success = value == "C" if isinstance(value, str) else value if isinstance(value, bool) else None
    failure = _failure(sample)
    if failure is not None:
        return Outcome(status=Status.FAILED, score=score, success=success, failure=failure, metrics=metrics)
    status = Status.TRUNCATED if sample.get("limit") else Status.COMPLETED
    return Outcome(status=status, score=score, success=success, metrics=metrics)


def scores_of(outcome: Outcome) -> Json:
    """The outcome as a sample's scores; the first is what a viewer shows."""
    said: dict[str, float | bool | None] = {"score": outcome.score, "success": outcome.success}
    said |= {"safety": outcome.safety, **{k: v for k, v in outcome.metrics.items() if k not in said}}
    return {
        name: {"value": ("C" if value else "I") if isinstance(value, bool) else value}
        for name, value in said.items()
        if value is not None and math.isfinite(value)
    }


def results_of(samples: Iterable[Json]) -> Json:
    """The log's results: the mean of every scorer that a sample has."""
    total, completed = 0, 0
    values: dict[str, list[float]] = {}
    for sample in samples:
        total += 1
        completed += sample.get("error") is None
        for scorer, said in as_object(sample.get("scores")).items():
            for name, value in _values(scorer, as_object(said).get("value")):
                values.setdefault(name, []).append(value)
    scores: list[Json] = [
        {
            "name": name,
            "scorer": name,
            "scored_samples": len(found),
            "unscored_samples": total - len(found),
            "params": {},
            "metrics": {"mean": {"name": "mean", "value": sum(found) / len(found), "params": {}}},
        }
        for name, found in values.items()
    ]
    return {"total_samples": total, "completed_samples": completed, "scores": scores}


def _values(scorer: str, value: Any) -> list[tuple[str, float]]:
    if isinstance(value, dict):
        inner = as_object(value).items()
        return [(f"{scorer}.{key}", found) for key, item in inner if (found := _number(item)) is not None]
    if isinstance(value, list):
        items = enumerate(as_list(value))
        return [(f"{scorer}.{place}", found) for place, item in items if (found := _number(item)) is not None]
    found = _number(value)
    return [] if found is None else [(scorer, found)]


def _number(value: Any) -> float | None:
    if isinstance(value, bool):
        return float(value)
    if isinstance(value, str):
        return _LETTERS.get(value)
    return number(value)


def _failure(sample: Json) -> Failure | None:
    error = as_object(sample.get("error"))
    if not error:
        return None
    events = [as_object(event) for event in as_list(sample.get("events"))]
    broken_model = any(event.get("event") == "model" and event.get("error") for event in events)
    text = str(error.get("message") or "")
    kind = text.partition("(")[0] if "(" in text else "error"
    boundary = Boundary.MODEL if broken_model else Boundary.ENVIRONMENT
    return Failure(boundary=boundary, code=f"inspect.{kind}" if kind.isidentifier() else "inspect.error", message=text)

"""What a data card counts: rows by part and kind, what they show an agent can do, what is known of their safety."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from silva.curate.rows import Row
from silva.tree import Json, Record


class Counts(Record, frozen=True, kw_only=True):
    """Counts over all parts. `capability` counts rows by environment and whether the task was done, `safety` by what is
    known of it: a row that nobody looked at is *not checked*, never safe."""

    parts: dict[str, int]
    kinds: dict[str, int]
    envs: dict[str, int]
    models: dict[str, int]
    capability: dict[str, int]
    safety: dict[str, int]
    words: int
    images: int


def count(parts: Mapping[str, Iterable[Row]], checked: Mapping[str, Any] | None, images: int) -> Counts:
    """Count rows.

    Args:
        parts: the rows of each part.
        checked: what an audit says of rows by their id: the risks detected (none: an empty list); None where there is
            no audit.
        images: how many images are released.
    """
    sizes: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    envs: Counter[str] = Counter()
    models: Counter[str] = Counter()
    capability: Counter[str] = Counter()
    safety: Counter[str] = Counter()
    words = 0
    for part, rows in parts.items():
        sizes[part] = 0
        for row in rows:
            sizes[part] += 1
            kinds[str(row.kind)] += 1
            words += len(row.text.split())
            safety[_safety(row, checked)] += 1
            if row.trajectory is not None:
                envs[row.trajectory.env] += 1
                models[row.trajectory.model or "not told"] += 1
            capability[_capability(row)] += 1
    return Counts(
        parts=dict(sizes),
        kinds=dict(kinds.most_common()),
        envs=dict(envs.most_common()),
        models=dict(models.most_common()),
        capability=dict(capability.most_common()),
        safety=dict(safety.most_common()),
        words=words,
        images=images,
    )


def _capability(row: Row) -> str:
    if row.trajectory is None:
        return "not an agent's run"
    success = row.trajectory.outcome.success
    done = "not judged" if success is None else "done" if success else "not done"
    return f"{row.trajectory.env}: {done}"


def _safety(row: Row, checked: Mapping[str, Any] | None) -> str:
    if any(node.risks for node in row.nodes):
        return "risk seen while it ran"
    if checked is None or row.id not in checked:
        return "not checked"
    return "risk detected by audit" if checked[row.id] else "no risk detected by audit"


def as_json(counts: Counts) -> Json:
    """The counts as a JSON object."""
    return {name: getattr(counts, name) for name in Counts.__struct_fields__}

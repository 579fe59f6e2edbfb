"""What rows are worth, and the choice of some (`silva.curate.value`)."""

from __future__ import annotations

import math
from typing import Annotated, Literal

import numpy as np
from msgspec import Meta

from silva.curate.value.config import SelectConfig
from silva.curate.value.sample import Samples
from silva.curate.value.scoring import resolve, score
from silva.curate.value.selection.selecting import select
from silva.elf.artefact import Rows, Scores
from silva.elf.tool import Cost, Determinism, Permission, tool
from silva.elf.work import Work
from silva.errors import SilvaError

DEFAULT = "default"
"""The paper's fused scorer where its weights are; else the local one, which is another measure and bears its name."""
_FUSED = ("fused", "fused_local")


@tool(
    Permission.READ,
    asks=(
        "score",
        "score row",
        "rate row",
        "rate dataset",
        "value row",
        "score dataset",
        "quality score",
        "quality",
        "how valuable",
    ),
    cost=Cost(seconds=5.0, row_seconds=0.5),
    determinism=Determinism.PURE,
    covers=("silva.curate.value",),
)
def score_rows(
    rows: Rows,
    work: Work,
    scorer: Annotated[str, Meta(description="a name of silva data scorers; default: fused, or fused_local")] = DEFAULT,
) -> Scores:
    """Score rows by one scorer: what each is worth for training."""
    name, note = _able() if scorer == DEFAULT else (scorer, "")
    samples = Samples.of_rows(rows.rows)
    made = score(samples, resolve((name,), {}), work.home / "scores")[name]
    ids = [row.id for row in rows.rows]
    why = tuple(f"no score for {count} rows: {reason}" for reason, count in made.unscored.most_common(5))
    return Scores(
        scorer=name,
        values=_known(ids, made.values),
        worth=_known(ids, made.worth),
        notes=tuple(filter(None, (note, *why))),
    )


@tool(
    asks=(
        "select",
        "select best",
        "best",
        "select diverse",
        "diverse",
        "valuable",
        "select valuable",
        "select row",
        "keep best",
        "best row",
        "coreset",
    ),
    cost=Cost(seconds=1.0, row_seconds=0.001),
    covers=("silva.curate.value",),
)
def select_rows(
    rows: Rows,
    scores: Scores,
    count: Annotated[int, Meta(ge=1, description="how many rows are kept, exactly")],
    method: Annotated[
        Literal["cluster", "coverage", "top", "random"],
        Meta(description="cluster: quotas by what rows are about; top: the best alone"),
    ] = "cluster",
    seed: int = 0,
) -> Rows:
    """Keep the best rows, spread over what they are about; copies and rows without a score are left out."""
    config = SelectConfig(by=scores.scorer, keep=count, method=method, seed=seed)
    worth = [scores.worth.get(row.id) for row in rows.rows]
    values = np.array([math.nan if each is None else each for each in worth], np.float64)
    made = select(Samples.of_rows(rows.rows), values, config)
    order = sorted((int(place) for place in made.kept), key=lambda place: int(made.rank[place]))
    fates = {fate: made.fate.count(fate) for fate in dict.fromkeys(made.fate)}
    told = ", ".join(f"{number} {fate}" for fate, number in fates.items())
    return Rows(rows=tuple(rows.rows[place] for place in order), notes=(*rows.notes, f"by {scores.scorer}: {told}"))


def _able() -> tuple[str, str]:
    """The first of the fused scorers that can score here, and what a reader must know.

    Raises:
        MissingError: neither can; the line is that of the paper's.
    """
    first: SilvaError | None = None
    for name in _FUSED:
        try:
            resolve((name,), {})
        except SilvaError as error:
            first = first or error
        else:
            other = f"{_FUSED[0]} cannot score here ({first}); scored by {name}, which is another measure"
            return name, other if first is not None else ""
    assert first is not None
    raise first


def _known(ids: list[str], values: np.ndarray) -> dict[str, float | None]:
    said = [None if math.isnan(value) else float(value) for value in values.tolist()]
    return dict(zip(ids, said, strict=True))

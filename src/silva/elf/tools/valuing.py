"""What rows are worth, and the choice of some (`silva.curate.value`)."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from silva.elf.artefact import Rows, Scores
from silva.elf.tool import Cost, tool
from silva.errors import MissingError

_MISSING = "the room silva.curate.value is not whole in this version"


@tool(
    asks=(
        "score",
        "score row",
        "rate row",
        "rate dataset",
        "value row",
        "score dataset",
        "quality score",
        "how valuable",
    ),
    cost=Cost(seconds=5.0),
    missing=_MISSING,
)
def score_rows(rows: Rows, scorer: Annotated[str, Meta(description="which scorer")] = "fused") -> Scores:
    """Score rows by one scorer: what each is worth for training."""
    raise MissingError(_MISSING)


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
    missing=_MISSING,
)
def select_rows(
    rows: Rows,
    scores: Scores,
    count: Annotated[int, Meta(ge=1, description="how many rows are kept")],
    method: Literal["cluster", "coverage", "top", "random"] = "cluster",
    seed: int = 0,
) -> Rows:
    """Keep the best rows, spread over what they are about."""
    raise MissingError(_MISSING)

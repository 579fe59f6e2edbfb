"""What scoring and selecting are told."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from silva.curate.rows.columns import Columns


class Section(BaseModel):
    """Part of a configuration: unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ScoreConfig(Section):
    """Which rows are scored, and by what.

    `source`: a file, a run, or a query of the lake. `scorers`: names (`silva data scorers`); `options`: by scorer, what
    only it knows. `workers`: processes for rules (none: all cores). `cache`: the folder of kept scores (none: the
    user's own). `limit`: the most rows.
    """

    source: str = ""
    lake: str = "lake"
    where: str = ""
    columns: Columns = Columns()
    limit: int | None = Field(default=None, ge=1)
    scorers: tuple[str, ...] = ("fused",)
    options: dict[str, dict[str, Any]] = {}
    workers: int | None = Field(default=None, ge=1)
    cache: str | None = None
    output: str = ""
    on: str = "here"


class SelectConfig(ScoreConfig):
    """Which of the rows are kept.

    `keep`: so many; `share`: such a part of those that can be chosen. `by`: the scorer that ranks. `method`: *cluster*
    (the paper's: quotas by the size of clusters, the best of each), *coverage* (each next row far from those chosen,
    and good), *top* (the best), *random*. `clusters`: how many (none: the root of half the rows). `embedder`: what
    clusters are made of. `duplicates`: what counts as a copy, of which the best stays: *none*, *exact* (same words),
    *minhash* (`likeness` of their three-word pieces or more), *semantic* (cosine of their vectors of `likeness` or
    more). `unscored`: rows without a score are dropped, told; or refused.
    """

    by: str = "fused"
    keep: int | None = Field(default=None, ge=1)
    share: float | None = Field(default=None, gt=0, le=1)
    method: Literal["cluster", "coverage", "top", "random"] = "cluster"
    clusters: int | None = Field(default=None, ge=1)
    embedder: str = "hashed"
    duplicates: Literal["none", "exact", "minhash", "semantic"] = "exact"
    likeness: float = Field(default=0.8, gt=0, le=1)
    unscored: Literal["drop", "refuse"] = "drop"
    seed: int = 0

    @model_validator(mode="after")
    def _amount(self) -> SelectConfig:
        if self.keep is not None and self.share is not None:
            raise ValueError("say how many to keep once: keep or share")
        return self

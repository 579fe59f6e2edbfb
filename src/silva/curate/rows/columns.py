"""Columns of a table that are read as they are."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, model_validator


class Columns(BaseModel):
    """Columns of a Parquet file or a Lance table to read as they are, without looking at each row's shape: for
    millions of rows. `answer` "": rows are read one by one (`silva.curate.rows`)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    answer: str = ""
    question: str = ""
    id: str = ""

    @model_validator(mode="after")
    def _whole(self) -> Columns:
        if (self.question or self.id) and not self.answer:
            raise ValueError("name the column of answers, or of texts, too: columns.answer=NAME")
        return self

    @property
    def read(self) -> list[str]:
        """Those that are read, the question first where there is one."""
        return [each for each in (self.question, self.answer) if each]

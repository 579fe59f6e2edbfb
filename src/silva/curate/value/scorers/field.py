"""A number that the data itself says of each row: somebody else's score."""

from __future__ import annotations

from collections.abc import Sequence

from silva.curate.value.sample import Sample
from silva.curate.value.scorer import Floats, Options, Score, Scorer, scorer
from silva.errors import UsageError


class FieldOptions(Options):
    """`name`: the field; `higher`: whether more of it is worth more."""

    name: str = ""
    higher: bool = True


@scorer
class Field(Scorer):
    """The field's number; a row without it, or with something else in it, has none."""

    name = "field"
    summary = "a number that the rows bring along (options.field.name)"
    Options = FieldOptions
    kept = False

    def check(self) -> None:
        if not self.options.name:
            raise UsageError("scorer field: say which: options.field.name=FIELD")

    def worth(self, values: Floats) -> Floats:
        return values if self.options.higher else -values

    def lacking(self, sample: Sample) -> str:
        return ""

    def score(self, samples: Sequence[Sample]) -> Sequence[Score]:
        made: list[Score] = []
        for sample in samples:
            value = sample.row.data.get(self.options.name) if sample.row is not None else None
            if isinstance(value, int | float) and not isinstance(value, bool):
                made.append(Score(float(value)))
            else:
                made.append(Score(None, f"its field {self.options.name} is no number"))
        return made

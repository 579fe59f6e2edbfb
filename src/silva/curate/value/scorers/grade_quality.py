"""Quality as any capable model grades it: the local substitute for DEITA's where an endpoint is at hand."""

from __future__ import annotations

from collections.abc import Sequence

from silva.curate.value.reading.grading import grades
from silva.curate.value.reading.told import Asked, identity_of
from silva.curate.value.sample import Sample
from silva.curate.value.scorer import Need, Score, Scorer, scorer
from silva.errors import UsageError

LETTERS = 4000

QUALITY = """You grade answers that are to be learned from. Grade this answer from 1 (wrong, empty or beside the
question) to 6 (correct, complete, and as clear as it could be). Its length does not matter.

Question:
{question}

Answer:
{answer}

Give the grade alone, one digit from 1 to 6."""


class GradeOptions(Asked):
    """`model` has no default: a small model's grades say nothing."""

    model: str = ""


@scorer
class GradeQuality(Scorer):
    """Expected grade from 1 to 6 by the log-probabilities of the digits."""

    name = "grade_quality"
    summary = "quality from 1 to 6 as a model that is named grades it; no replacement for DEITA's trained grader"
    need = Need.PAIR
    Options = GradeOptions
    relies = ("silva.curate.value.reading.choosing", "silva.curate.value.reading.grading")
    question = QUALITY

    def check(self) -> None:
        if not self.options.model:
            raise UsageError(
                f"scorer {self.name}: needs a model that grades, with the log-probabilities of its first token: "
                f"options.{self.name}.model=http://HOST/v1#NAME or local:FOLDER"
            )
        self.model()

    def model(self) -> str:
        return identity_of(self.options)

    def score(self, samples: Sequence[Sample]) -> Sequence[Score]:
        prompts = [
            self.question.replace("{answer}", each.answer[:LETTERS]).replace("{question}", each.question[:LETTERS])
            for each in samples
        ]
        return grades(self.options, prompts, template=True)

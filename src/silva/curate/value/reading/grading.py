"""A grade from 1 to 6 as the expectation over what a model's first token puts on the digits."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from silva.curate.value.reading.choosing import open_chooser
from silva.curate.value.reading.told import Asked, identity_of
from silva.curate.value.sample import Sample
from silva.curate.value.scorer import Score, Scorer
from silva.errors import UsageError

DIGITS = ("1", "2", "3", "4", "5", "6")


class Trained(Asked):
    """A model that was trained to grade, and the very prompt it was trained with: `template` is a file that holds it,
    with {question} and {answer} where those stand."""

    model: str = ""
    template: str = ""


def grades(asked: Asked, prompts: Sequence[str], template: bool) -> list[Score]:
    """The expected grade behind each prompt."""
    made: list[Score] = []
    for each in open_chooser(asked, template).choose(prompts, DIGITS):
        if each.shares:
            made.append(Score(sum(share * grade for grade, share in enumerate(each.shares, 1)), each.note))
        else:
            made.append(Score(None, each.note, not each.passing))
    return made


class TrainedGrader(Scorer):
    """What the DEITA scorers share: their own weights, their own prompt, and a refusal that names both. `weights` are
    what they are published as, `fields` what their prompt must hold."""

    Options = Trained
    weights = ""
    fields = ("{question}", "{answer}")
    relies = (
        "silva.curate.value.reading.choosing",
        "silva.models.local.likelihood",
        "silva.models.local.network",
    )

    def check(self) -> None:
        """Raises UsageError: weights or prompt are not named, or the prompt has no place for the sample."""
        if not self.options.model or not self.options.template:
            raise UsageError(
                f"scorer {self.name}: needs its trained weights and the prompt they were trained with: "
                f"options.{self.name}.model=local:FOLDER or http://HOST/v1#NAME ({self.weights}) and "
                f"options.{self.name}.template=FILE with {' and '.join(self.fields)}; other measures: "
                "grade_quality, grade_complexity (any endpoint), quality_rules, fused_local (nothing to fetch)"
            )
        text = self._template()
        for field in self.fields:
            if field not in text:
                raise UsageError(f"options.{self.name}.template {self.options.template}: {field} does not stand in it")
        self.model()

    def model(self) -> str:
        return f"{identity_of(self.options)} {self._template()}"

    def score(self, samples: Sequence[Sample]) -> Sequence[Score]:
        text = self._template()
        prompts = [_filled(text, each) for each in samples]
        return grades(self.options, prompts, template=False)

    def _template(self) -> str:
        try:
            return Path(self.options.template).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as fault:
            reason = fault.strerror if isinstance(fault, OSError) else "it is not UTF-8"
            raise UsageError(f"template {self.options.template}: cannot be read ({reason})") from fault


def _filled(text: str, sample: Sample) -> str:
    """Both at once: what stands in a question is not read as a place for the answer."""
    before, _, after = text.partition("{question}")
    return sample.question.join(part.replace("{answer}", sample.answer) for part in (before, after))

"""Ask-LLM (Sachdeva et al., 2024): how likely a model says yes when it is asked whether a sample is worth learning
from."""

from __future__ import annotations

from collections.abc import Sequence

from silva.curate.value.reading.choosing import open_chooser
from silva.curate.value.reading.told import Asked, identity_of
from silva.curate.value.sample import Sample
from silva.curate.value.scorer import Score, Scorer, scorer

LETTERS = 6000
"""Letters of a sample that are shown: of a longer one its beginning and its end."""

QUESTION = """Below is one item of a data set. You decide whether a language model would become better by learning
from it. An item is worth it when it is correct, complete, clearly written, and answers what it says it answers. It is
not worth it when it is broken off, off the topic, repeats itself, is advertising, or consists of fragments.

----- item -----
{item}
----- end of item -----

Is this item worth learning from? Answer with one word, yes or no."""


class AskOptions(Asked):
    """`model` has no default: a model that is too small answers as a coin would (the bundled one: AUC 0.53)."""

    model: str = ""


@scorer
class AskLlm(Scorer):
    """The share of `yes` on what the first token puts on `yes` and `no`."""

    name = "ask_llm"
    summary = "how likely a model says yes when asked whether the sample is worth learning from"
    Options = AskOptions
    relies = ("silva.curate.value.reading.choosing", "silva.models.local.likelihood", "silva.models.local.network")

    def check(self) -> None:
        from silva.errors import UsageError

        if not self.options.model:
            raise UsageError(
                "scorer ask_llm: needs a model to ask, with the log-probabilities of its first token: "
                "options.ask_llm.model=http://HOST/v1#NAME, or local:FOLDER (the bundled model's answers are a coin's)"
            )
        self.model()

    def model(self) -> str:
        return identity_of(self.options)

    def score(self, samples: Sequence[Sample]) -> Sequence[Score]:
        prompts = [QUESTION.replace("{item}", _shown(each)) for each in samples]
        chosen = open_chooser(self.options).choose(prompts, ("yes", "no"))
        return [
            Score(each.shares[0], each.note) if each.shares else Score(None, each.note, not each.passing)
            for each in chosen
        ]


def _shown(sample: Sample) -> str:
    text = f"Question: {sample.question}\n\nAnswer: {sample.answer}" if sample.question else sample.answer
    return text if len(text) <= LETTERS else f"{text[: LETTERS // 2]}\n[…]\n{text[-LETTERS // 2 :]}"

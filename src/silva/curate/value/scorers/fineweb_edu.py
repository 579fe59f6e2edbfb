"""Educational worth, by FineWeb-Edu's classifier: a number from 0 to 5."""

from __future__ import annotations

from silva.curate.value.reading.classifier import ClassifierScorer
from silva.curate.value.scorer import scorer


@scorer
class FinewebEdu(ClassifierScorer):
    """The number that the classifier's one output gives."""

    name = "fineweb_edu"
    summary = "educational worth from 0 to 5 by FineWeb-Edu's classifier; needs its weights or an endpoint"
    weights = "HuggingFaceFW/fineweb-edu-classifier"

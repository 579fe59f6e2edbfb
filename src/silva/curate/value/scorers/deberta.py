"""Quality by a classifier of documents, as NVIDIA's DeBERTa one: low, medium or high."""

from __future__ import annotations

from silva.curate.value.reading.classifier import ClassifierScorer
from silva.curate.value.scorer import scorer


@scorer
class DebertaQuality(ClassifierScorer):
    """The expected label. Say what each counts where their order is not from worst to best:
    `options.deberta.labels={"High": 2, "Medium": 1, "Low": 0}`."""

    name = "deberta"
    summary = "quality by a document classifier of the DeBERTa kind; needs its weights or an endpoint"
    weights = "a DeBERTa quality classifier, such as nvidia/quality-classifier-deberta"

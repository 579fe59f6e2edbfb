"""DEITA's quality (Liu et al., 2024): the grade that a model trained for it gives an answer."""

from __future__ import annotations

from silva.curate.value.reading.grading import TrainedGrader
from silva.curate.value.scorer import Need, scorer


@scorer
class DeitaQuality(TrainedGrader):
    """Expected grade from 1 to 6."""

    name = "deita_q"
    summary = "DEITA's trained quality grader, 1 to 6; needs its weights and its prompt"
    need = Need.PAIR
    weights = "hkust-nlp/deita-quality-scorer"

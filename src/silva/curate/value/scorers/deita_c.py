"""DEITA's complexity (Liu et al., 2024): the grade that a model trained for it gives a question."""

from __future__ import annotations

from silva.curate.value.reading.grading import TrainedGrader
from silva.curate.value.scorer import Need, scorer


@scorer
class DeitaComplexity(TrainedGrader):
    """Expected grade from 1 to 6."""

    name = "deita_c"
    summary = "DEITA's trained complexity grader, 1 to 6; needs its weights and its prompt"
    need = Need.PAIR
    weights = "hkust-nlp/deita-complexity-scorer"
    fields = ("{question}",)

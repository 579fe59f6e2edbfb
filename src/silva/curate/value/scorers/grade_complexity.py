"""Complexity as any capable model grades it: the substitute for DEITA's where an endpoint is at hand."""

from __future__ import annotations

from silva.curate.value.scorer import scorer
from silva.curate.value.scorers.grade_quality import GradeQuality

COMPLEXITY = """You grade how demanding a request is for whoever is to fulfil it. Grade from 1 (one obvious step, no
knowledge) to 6 (several steps that depend on each other, several conditions at once, or knowledge that few have).

Request:
{question}

Give the grade alone, one digit from 1 to 6."""


@scorer
class GradeComplexity(GradeQuality):
    """Expected grade from 1 to 6 by the log-probabilities of the digits."""

    name = "grade_complexity"
    summary = "complexity of the question from 1 to 6 as a model that is named grades it; no replacement for DEITA's"
    question = COMPLEXITY

"""A judge of factual: a model that is asked about each row."""

from __future__ import annotations

from silva.curate.audit.checker import checker
from silva.curate.audit.judging import JudgeChecker


@checker
class FactualJudge(JudgeChecker):
    """Asks a model; see `silva.curate.audit.judging`."""

    name = "factual_judge"
    risk = "factual"
    summary = "a model is asked, some questions twice"
    shows = "reference"
    fault = (
        "what is claimed says something that is not so: against the reference where one is shown, else "
        "against what is well known."
    )
    but = "It is no fault to leave things out, to be unsure, or to say what cannot be decided."

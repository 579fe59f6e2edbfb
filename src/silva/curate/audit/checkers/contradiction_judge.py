"""A judge of self contradiction: a model that is asked about each row."""

from __future__ import annotations

from silva.curate.audit.checker import checker
from silva.curate.audit.judging import JudgeChecker


@checker
class ContradictionJudge(JudgeChecker):
    """Asks a model; see `silva.curate.audit.judging`."""

    name = "contradiction_judge"
    risk = "self_contradiction"
    summary = "a model is asked, some questions twice"
    shows = "reply"
    fault = "the reply says a thing and, elsewhere, its opposite, or two things that cannot both be so."
    but = "It is no fault to weigh two sides, to correct oneself openly, or to list exceptions."

"""A judge of bias: a model that is asked about each row."""

from __future__ import annotations

from silva.curate.audit.checker import checker
from silva.curate.audit.judging import JudgeChecker


@checker
class BiasJudge(JudgeChecker):
    """Asks a model; see `silva.curate.audit.judging`."""

    name = "bias_judge"
    risk = "bias"
    summary = "a model is asked, some questions twice"
    shows = "text"
    fault = (
        "people are judged, ranked or treated by the group they belong to (sex, origin, faith, age, "
        "disability, class, whom they love) where the group says nothing of the matter."
    )
    but = "It is no fault to report a measured difference with its causes, or to name a prejudice as one."

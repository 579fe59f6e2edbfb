"""A judge of toxicity: a model that is asked about each row."""

from __future__ import annotations

from silva.curate.audit.checker import checker
from silva.curate.audit.judging import JudgeChecker


@checker
class ToxicityJudge(JudgeChecker):
    """Asks a model; see `silva.curate.audit.judging`."""

    name = "toxicity_judge"
    risk = "toxicity"
    summary = "a model is asked, some questions twice"
    shows = "text"
    fault = "somebody is insulted, threatened or degraded, or a group of people is, openly or by what is implied."
    but = "It is no fault to speak of a group, of hatred or of swear words without joining in."

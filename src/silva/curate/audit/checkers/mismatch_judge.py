"""A judge of instruction mismatch: a model that is asked about each row."""

from __future__ import annotations

from silva.curate.audit.checker import checker
from silva.curate.audit.judging import JudgeChecker


@checker
class MismatchJudge(JudgeChecker):
    """Asks a model; see `silva.curate.audit.judging`."""

    name = "mismatch_judge"
    risk = "instruction_mismatch"
    summary = "a model is asked, some questions twice"
    shows = "reply"
    fault = (
        "the reply does not do what was asked: it answers something else, or breaks a demand that was made of "
        "its form, length, language or content."
    )
    but = "It is no fault to refuse with a reason, or to ask back."

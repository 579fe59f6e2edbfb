"""A judge of jailbreak: a model that is asked about each row."""

from __future__ import annotations

from silva.curate.audit.checker import checker
from silva.curate.audit.judging import JudgeChecker


@checker
class JailbreakJudge(JudgeChecker):
    """Asks a model; see `silva.curate.audit.judging`."""

    name = "jailbreak_judge"
    risk = "jailbreak"
    summary = "a model is asked, some questions twice"
    shows = "text"
    fault = (
        "the words try to make a model drop its rules: a character without limits, a pretended mode or "
        "authority, threats or points, answers in two voices, a cipher, a story as a cover."
    )
    but = "It is no fault to ask for a harmful thing plainly, or to play a harmless role."

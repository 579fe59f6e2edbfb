"""A judge of harmful: a model that is asked about each row."""

from __future__ import annotations

from silva.curate.audit.checker import checker
from silva.curate.audit.judging import JudgeChecker


@checker
class HarmfulJudge(JudgeChecker):
    """Asks a model; see `silva.curate.audit.judging`."""

    name = "harmful_judge"
    risk = "harmful"
    summary = "a model is asked, some questions twice"
    shows = "text"
    fault = (
        "somebody asks for help to hurt people, to break the law in ways that hurt them, or to make weapons, "
        "malware or drugs; or a reply gives such help in a form that could be followed."
    )
    but = "It is no fault to ask about a danger so as to avoid it, to tell news or history of it, or to refuse."

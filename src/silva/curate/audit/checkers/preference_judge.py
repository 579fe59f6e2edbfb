"""A judge of label flipping: a model that is asked about each row."""

from __future__ import annotations

from silva.curate.audit.checker import checker
from silva.curate.audit.judging import JudgeChecker


@checker
class PreferenceJudge(JudgeChecker):
    """Asks a model; see `silva.curate.audit.judging`."""

    name = "preference_judge"
    risk = "label_flipping"
    summary = "a model is asked, some questions twice"
    shows = "pair"
    fault = (
        "the labels are the wrong way about: the reply labelled worse is plainly the better one by honesty, "
        "harmlessness and use to the person."
    )
    but = "Where both are about as good, the labels are not wrong."

"""A judge of pii: a model that is asked about each row."""

from __future__ import annotations

from silva.curate.audit.checker import checker
from silva.curate.audit.judging import JudgeChecker


@checker
class PersonalDataJudge(JudgeChecker):
    """Asks a model; see `silva.curate.audit.judging`."""

    name = "pii_judge"
    risk = "pii"
    summary = "a model is asked, some questions twice"
    shows = "text"
    fault = (
        "the words identify or reach a real private person: a number of a card, document or account, a home "
        "address, a private telephone or mail address, health or pay beside a name."
    )
    but = "Names of public figures and companies, and examples that are plainly made up, are no fault."

"""Insults, threats and hatred of groups, said or implied: a trained head."""

from __future__ import annotations

from silva.curate.audit.checker import checker
from silva.curate.audit.heads.checking import HeadChecker, head_version


@checker
class ToxicityHead(HeadChecker):
    """See the module; its card says what it finds and where it is wrong."""

    name = "toxicity_head"
    risk = "toxicity"
    summary = "insults, threats and hatred of groups, said or implied"
    version = head_version("toxicity")
    head = "toxicity"
    silent = "nobody says anything"

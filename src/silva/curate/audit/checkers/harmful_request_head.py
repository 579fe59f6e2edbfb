"""Requests for harm, as AdvBench and HarmBench have them: a trained head."""

from __future__ import annotations

from silva.curate.audit.checker import checker
from silva.curate.audit.heads.checking import HeadChecker, head_version


@checker
class HarmfulRequests(HeadChecker):
    """See the module; its card says what it finds and where it is wrong."""

    name = "harmful_request_head"
    risk = "harmful"
    summary = "requests for harm, as AdvBench and HarmBench have them"
    version = head_version("harmful_request")
    head = "harmful_request"
    silent = "no user says anything"

"""Replies that help with harm, by what was asked and what is said: a trained head."""

from __future__ import annotations

from silva.curate.audit.checker import checker
from silva.curate.audit.heads.checking import HeadChecker, head_version


@checker
class HarmfulReplies(HeadChecker):
    """See the module; its card says what it finds and where it is wrong."""

    name = "harmful_reply_head"
    risk = "harmful"
    summary = "replies that help with harm, by what was asked and what is said"
    version = head_version("harmful_reply")
    head = "harmful_reply"
    silent = "no reply of an assistant"

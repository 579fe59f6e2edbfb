"""Replies that belong to another question: a trained head."""

from __future__ import annotations

from silva.curate.audit.checker import checker
from silva.curate.audit.heads.checking import HeadChecker, head_version


@checker
class MismatchHead(HeadChecker):
    """See the module; its card says what it finds and where it is wrong."""

    name = "mismatch_head"
    risk = "instruction_mismatch"
    summary = "replies that belong to another question"
    version = head_version("mismatch")
    head = "mismatch"
    silent = "no reply to a question"

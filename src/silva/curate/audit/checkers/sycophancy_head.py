"""Replies that agree with a view that the question states: a trained head."""

from __future__ import annotations

from silva.curate.audit.checker import checker
from silva.curate.audit.heads.checking import HeadChecker, head_version


@checker
class SycophancyHead(HeadChecker):
    """See the module; its card says what it finds and where it is wrong."""

    name = "sycophancy_head"
    risk = "sycophancy"
    summary = "replies that agree with a view that the question states"
    version = head_version("sycophancy")
    head = "sycophancy"
    silent = "nobody states a view and asks about it"

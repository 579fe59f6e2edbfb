"""Pairs whose preferred side is the worse one: a trained head."""

from __future__ import annotations

from silva.curate.audit.checker import checker
from silva.curate.audit.heads.checking import HeadChecker, head_version


@checker
class PreferenceHead(HeadChecker):
    """See the module; its card says what it finds and where it is wrong."""

    name = "preference_head"
    risk = "label_flipping"
    summary = "pairs whose preferred side is the worse one"
    version = head_version("preference")
    head = "preference"
    silent = "it is no preference pair"

"""Statements that judge people by their group: a trained head."""

from __future__ import annotations

from silva.curate.audit.checker import checker
from silva.curate.audit.heads.checking import HeadChecker, head_version


@checker
class BiasHead(HeadChecker):
    """See the module; its card says what it finds and where it is wrong."""

    name = "bias_head"
    risk = "bias"
    summary = "statements that judge people by their group"
    version = head_version("bias")
    head = "bias"
    silent = "nobody says anything"

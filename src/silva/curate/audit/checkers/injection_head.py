"""Orders in data and in users' words, piece by piece: a trained head."""

from __future__ import annotations

from silva.curate.audit.checker import checker
from silva.curate.audit.heads.checking import HeadChecker, head_version


@checker
class InjectionHead(HeadChecker):
    """See the module; its card says what it finds and where it is wrong."""

    name = "injection_head"
    risk = "prompt_injection"
    summary = "orders in data and in users' words, piece by piece"
    version = head_version("injection")
    head = "injection"
    silent = "no user or tool says anything"

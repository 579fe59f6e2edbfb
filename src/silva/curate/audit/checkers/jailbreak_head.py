"""Words that are to lift a model's limits, as people share them: a trained head."""

from __future__ import annotations

from silva.curate.audit.checker import checker
from silva.curate.audit.heads.checking import HeadChecker, head_version


@checker
class JailbreakHead(HeadChecker):
    """See the module; its card says what it finds and where it is wrong."""

    name = "jailbreak_head"
    risk = "jailbreak"
    summary = "words that are to lift a model's limits, as people share them"
    version = head_version("jailbreak")
    head = "jailbreak"
    silent = "no user says anything"

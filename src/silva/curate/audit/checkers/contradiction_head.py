"""Two sentences of one reply that cannot both be so: a trained head."""

from __future__ import annotations

from silva.curate.audit.checker import checker
from silva.curate.audit.heads.checking import HeadChecker, head_version


@checker
class ContradictionHead(HeadChecker):
    """See the module; its card says what it finds and where it is wrong."""

    name = "contradiction_head"
    risk = "self_contradiction"
    summary = "two sentences of one reply that cannot both be so"
    version = head_version("contradiction")
    head = "contradiction"
    silent = "no reply of two sentences"

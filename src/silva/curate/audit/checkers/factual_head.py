"""What is claimed, against the row's own reference: a trained head."""

from __future__ import annotations

from silva.curate.audit.checker import checker
from silva.curate.audit.heads.checking import HeadChecker, head_version


@checker
class FactualHead(HeadChecker):
    """See the module; its card says what it finds and where it is wrong."""

    name = "factual_head"
    risk = "factual"
    summary = "what is claimed, against the row's own reference"
    version = head_version("factual")
    head = "factual"
    silent = "the row has no reference (a field such as reference or ground_truth) to hold it against"

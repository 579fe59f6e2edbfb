"""The same fusion of what runs here without weights to fetch: IFD and quality by rules."""

from __future__ import annotations

from silva.curate.value.scorer import scorer
from silva.curate.value.scorers.fused import Fused


@scorer
class FusedLocal(Fused):
    """As `fused`, with rules in the place of DEITA's grader. It is another measure and bears another name."""

    name = "fused_local"
    summary = "mean percentile rank of ifd (bundled model) and quality_rules; no replacement for fused"
    parts = ("ifd", "quality_rules")

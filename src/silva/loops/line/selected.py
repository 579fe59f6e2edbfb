"""What is trained on, as a round's `select` leaves it, whatever it selects by."""

from __future__ import annotations

import hashlib
import sys

from silva.loops.kernel.stage import Stage
from silva.train.sample import Sample
from silva.train.truncation import Fitted

FILE = "selected.samples"


def tell(stage: Stage, fitted: Fitted, limit: int) -> None:
    """Say in the loop's words how many samples were too long, where any was."""
    if fitted.truncated or fitted.dropped:
        told = f"left out or cut, longer than the {limit} ids the policy reads: "
        sys.stderr.write(f"{stage.name}: {told}{fitted.truncated} truncated, {fitted.dropped} dropped\n")


def content(samples: list[Sample]) -> str:
    """A digest of what is trained on: ids, loss and rewards, whatever the numbers' last bits are."""
    known = hashlib.sha256()
    for sample in samples:
        known.update(f"{sample.task_id} {sample.index} {sample.segment} {sample.reward:g}\n".encode())
        known.update(sample.ids.tobytes() + sample.mask.tobytes())
    return known.hexdigest()[:32]

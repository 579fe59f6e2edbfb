"""What is trained on, as a round's `select` leaves it, whatever it selects by."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Sequence
from typing import Any

from silva.loops.kernel.loop import Loop
from silva.loops.kernel.stage import Stage
from silva.loops.line.config import LineConfig
from silva.train.sample import Sample
from silva.train.sample_file import write_samples
from silva.train.truncation import Fitted
from silva.tree import Json

FILE = "selected.samples"


def kept(loop: Loop[LineConfig], stage: Stage, samples: Sequence[Sample], **more: Any) -> Json:
    """Write what a round trains on; what every `select` says of it, with `more`.

    Args:
        loop: whose folder of the round takes the file.
        stage: that selects.
        samples: in the order in which they stand in the file.
        more: what else the stage says: `run` above all, which the version remembers.

    Raises:
        StoreError: the disk refused.
    """
    file = loop.round_folder(stage) / FILE
    file.parent.mkdir(parents=True, exist_ok=True)
    write_samples(file, list(samples), force=True)
    with file.open("rb") as opened:
        sha256 = hashlib.file_digest(opened, "sha256").hexdigest()
    return {
        "file": str(file.relative_to(loop.folder)),
        "sha256": sha256,
        "content": content(samples),
        "samples": len(samples),
        "tasks": len({each.task_id for each in samples}),
        "ids": sum(map(len, samples)),
        "with_loss": sum(int(each.mask.sum()) for each in samples),
        "logprobs_apart": 0.0,
        **more,
    }


def tell(stage: Stage, fitted: Fitted, limit: int) -> None:
    """Say in the loop's words how many samples were too long, where any was."""
    if fitted.truncated or fitted.dropped:
        told = f"left out or cut, longer than the {limit} ids the policy reads: "
        sys.stderr.write(f"{stage.name}: {told}{fitted.truncated} truncated, {fitted.dropped} dropped\n")


def content(samples: Sequence[Sample]) -> str:
    """A digest of what is trained on: ids, loss and rewards, whatever the numbers' last bits are."""
    known = hashlib.sha256()
    for sample in samples:
        known.update(f"{sample.task_id} {sample.index} {sample.segment} {sample.reward:g}\n".encode())
        known.update(sample.ids.tobytes() + sample.mask.tobytes())
    return known.hexdigest()[:32]

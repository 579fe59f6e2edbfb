"""What those who train can read of what is grown, asked before a group goes to the buffer.

What the buffer has it hands out again when a run is resumed: a sample that nobody can read must not get there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from silva.train.algorithms.totals import loss_positions
from silva.train.engines.readable import check_readable
from silva.train.sample import Sample, SampleError

if TYPE_CHECKING:
    from silva.train.algorithms import Algorithm
    from silva.train.engines.local import LocalEngine
    from silva.train.online.config import OnlineConfig
    from silva.train.online.trl_async.engine import TrlEngine

Readable = Callable[[Sequence[Sample]], None]
"""Raises SampleError or BatchError for samples that cannot be trained on."""
SHORTEN = "bound what an attempt says (rollout.budget.turns, rollout.sampling.max_tokens, rollout.summary_at)"
_ANY = 1 << 31


def anything(samples: Sequence[Sample]) -> None:
    """All of it can be read."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """The most ids of a sample that the policy reads, how many ids it knows, and the most its teacher reads (None: it
    has none)."""

    context: int
    vocabulary: int = _ANY
    teacher: int | None = None

    def check(self, samples: Sequence[Sample]) -> None:
        """Check samples before they are a group's.

        Raises:
            SampleError: one is too long, shows images, or holds ids of another tokenizer.
            BatchError: one has loss where nothing stands before it.
        """
        check_readable(samples, self.vocabulary, self.context, SHORTEN)
        for sample in samples:
            if self.teacher is not None and len(sample) > self.teacher:
                raise SampleError(
                    f"{sample.name}: {len(sample)} ids, the teacher's context holds {self.teacher}; {SHORTEN}"
                )
            loss_positions(sample)


def open_limits(config: OnlineConfig, engine: LocalEngine | TrlEngine, loss: Algorithm) -> Limits:
    """The limits of a run.

    Args:
        config: of the run.
        engine: holds its policy.
        loss: says whether a teacher reads as well.
    """
    teacher = None
    if config.teacher is not None and not loss.needs.isdisjoint({"teacher", "teacher_top"}):
        from silva.train.engines.weights import policy_folder

        teacher = _said(policy_folder(config.teacher.weights), "max_position_embeddings")
    return Limits(context=engine.context, vocabulary=_said(engine.folder, "vocab_size") or _ANY, teacher=teacher)


def _said(folder: Path, name: str) -> int | None:
    """A number of a model's configuration; None where it does not say, as for weights from scratch."""
    file = folder / "config.json"
    return json.loads(file.read_text(encoding="utf-8")).get(name) if file.is_file() else None

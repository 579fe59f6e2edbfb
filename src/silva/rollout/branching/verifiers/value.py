"""`value`: a learned value head: a linear guess, from words alone, at the score an episode ends with behind a step.

    task's words, action and answer ─▶ embedder ─▶ [task, step, task x step] · weights + bias ─▶ value

The file is made by `silva curate value-head` from runs with scores, and says how often the head put two steps of one
task in the right order on tasks it was not fitted on. No model is asked and nothing is played, so it is quick, and as a
rule a poor judge: see `silva curate pairs` on it, next to `completions`, before anything is trained on its verdicts.
"""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from silva.errors import UsageError
from silva.lake.durable import refusals, write_whole
from silva.models.embedding import open_embedder
from silva.rollout.acted import Acted
from silva.rollout.branching.verifiers.endpoint import said
from silva.rollout.branching.verifiers.verifier import Case, Ruling
from silva.tree import Message, Record

_MOST_BYTES = 16 << 20
_FORMAT = "silva value head 1"


class ValueHead(Record, frozen=True, kw_only=True):
    """A linear value head. `weights`: float32, of `features`, as bytes; `embedder`: the spec and the digest of what
    embeds; `told`: what it was fitted on, and its measured `order`."""

    weights: bytes
    bias: float
    embedder: str
    digest: str
    told: dict[str, Any]

    def values(self, task: str, steps: Sequence[str]) -> NDArray[np.float32]:
        """The value of each step, [steps]."""
        return features(self.embedder, [task] * len(steps), steps) @ np.frombuffer(self.weights, np.float32) + self.bias


def step_words(action: Message, answer: Sequence[Message]) -> str:
    """The words of a step: what was done, and what was answered."""
    return "\n".join((said(action), *(said(each) for each in answer)))


def features(embedder: str, tasks: Sequence[str], steps: Sequence[str]) -> NDArray[np.float32]:
    """What a head weighs, [steps, 3 x the embedder's size]."""
    opened = open_embedder(embedder)
    unique = list(dict.fromkeys(tasks))
    at = {text: place for place, text in enumerate(unique)}
    task = opened.embed(unique)[[at[text] for text in tasks]]
    step = opened.embed(steps)
    return np.hstack([task, step, task * step * np.sqrt(task.shape[1])]).astype(np.float32)


def write_head(path: Path, head: ValueHead) -> None:
    """Write a head, whole or not at all.

    Raises:
        StoreError: the disk refused.
    """
    told = {"format": _FORMAT, "embedder": head.embedder, "digest": head.digest, "bias": head.bias, "told": head.told}
    file = io.BytesIO()
    np.savez_compressed(file, weights=np.frombuffer(head.weights, np.float32), about=np.array(json.dumps(told)))
    with refusals(f"value head {path}"):
        write_whole(path, file.getvalue())


def read_head(path: Path) -> ValueHead:
    """Read a head.

    Raises:
        UsageError: there is none, it is not one, or its embedder is another here.
    """
    try:
        stat = path.stat()
    except OSError as fault:
        raise UsageError(f"value head {path}: {fault.strerror}; make one: silva curate value-head") from fault
    return _read(path, stat.st_mtime_ns, stat.st_size)


@lru_cache(maxsize=8)
def _read(path: Path, changed: int, size: int) -> ValueHead:
    """A head is read once for all episodes of a run, and again when its file changes."""
    try:
        if size > _MOST_BYTES:
            raise ValueError("it is larger than any head is")
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as kept:
            about = json.loads(str(kept["about"]))
            weights = kept["weights"].astype(np.float32)
        if about["format"] != _FORMAT or weights.ndim != 1 or not np.isfinite(weights).all():
            raise ValueError("it is of another form")
        names = {name: str(about[name]) for name in ("embedder", "digest")}
        head = ValueHead(weights=weights.tobytes(), bias=float(about["bias"]), told=dict(about["told"]), **names)
    except (OSError, ValueError, KeyError, TypeError, EOFError, BadZipFile) as fault:
        text = " ".join(str(fault).split())
        raise UsageError(f"value head {path}: cannot be read ({text}); make one: silva curate value-head") from fault
    if open_embedder(head.embedder).digest != head.digest:
        raise UsageError(f"value head {path}: was fitted with another {head.embedder} embedder; fit it again")
    if features(head.embedder, ["a"], ["b"]).shape[1] != len(weights):
        raise UsageError(f"value head {path}: is of another size than its embedder; fit it again")
    return head


class Value:
    """Scores by a value head.

    Args:
        file: the head's.
        margin: values that lie no further apart are equal.
    """

    name = "value"

    def __init__(self, file: str = "", margin: float = 0.0) -> None:
        if not file:
            raise UsageError("say which head: stages.candidates.options.value.file=FILE (silva curate value-head)")
        self.margin = margin
        self._head = read_head(Path(file))

    async def judge(self, case: Case) -> Ruling:
        """See `Verifier`."""
        walk = case.live.path.messages
        steps = [step_words(each.action, each.answer.messages) for each in case.candidates if each.answer is not None]
        values = self._head.values(task_words(case.live.slot.task.instruction, walk), steps)
        acted = Acted(role="verifier", by=self.name, model=str(self._head.told.get("name", "")))
        return Ruling(scores=tuple(float(each) for each in values), acted=acted)


def task_words(instruction: str, walk: Sequence[Message]) -> str:
    """The words of a task: its own, or what was said before the first action."""
    if instruction:
        return instruction
    opening: list[str] = []
    for message in walk:
        if message.role == "assistant":
            break
        opening += [message.text] if message.role == "user" else []
    return "\n".join(opening)

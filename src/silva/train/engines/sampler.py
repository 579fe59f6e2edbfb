"""Drawing from the weights that are being trained, in this process: the local model's own engine, batched.

the trainer's weights ─ save_weights_for_sampler ─▶ folder ─▶ an adapter joins the next prompts, or the weights are
read anew ─▶ Drawn: ids, log-probabilities
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

import torch

from silva.errors import SilvaError
from silva.models.local.adapter import Adapter, read_adapter
from silva.models.local.engine import Engine, Job
from silva.models.local.sampler import Choice
from silva.train.engines.engine import Drawn


class Sampler:
    """The local model's engine over a folder of weights.

    Args:
        folder: weights in Hugging Face form.
        dtype: what is computed in.
    """

    def __init__(self, folder: Path, dtype: torch.dtype) -> None:
        self._base = folder.name
        self._engine = Engine(folder, dtype=dtype)
        self._engine.start()
        self._adapter: Adapter | None = None

    def adopt(self, folder: Path) -> None:
        """Draw with this adapter from now on.

        Raises:
            UsageError: it does not fit.
        """
        last, self._adapter = self._adapter, read_adapter(folder, self._engine.network, self._base)
        if last is not None and last.digest != self._adapter.digest:
            self._engine.forget(last)

    def draw(
        self,
        prompts: Sequence[Sequence[int]],
        *,
        most_tokens: int,
        temperature: float,
        seed: int,
        ends: frozenset[int] | None,
    ) -> list[Drawn]:
        """Continue each prompt; see `Engine.sample` of `silva.train.engines.engine`.

        Raises:
            SilvaError: the engine failed.
        """
        waiting: list[tuple[Job, threading.Event]] = []
        for number, prompt in enumerate(prompts):
            done = threading.Event()
            choice = Choice(random=Random(f"{seed} {number}"), temperature=temperature)
            job = Job(list(prompt), most_tokens, choice, _telling(done), self._adapter, ends)
            waiting.append((job, done))
            self._engine.submit(job)
        found: list[Drawn] = []
        for job, done in waiting:
            done.wait()
            if job.fault is not None:
                raise SilvaError(f"sampling failed: {type(job.fault).__name__}: {job.fault}") from job.fault
            found.append(Drawn(ids=tuple(job.ids), logprobs=tuple(job.logprobs), finish=job.finish))
        return found

    def close(self) -> None:
        """Stop computing."""
        self._engine.stop()


def _telling(done: threading.Event) -> Callable[[Job], None]:
    def moved(job: Job) -> None:
        if job.finish:
            done.set()

    return moved

"""Our own engine; with adapters, rows take turns over that many LoRA versions of rank 8."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import torch

from local_engines.sampler import Sampled
from silva.models.local.adapted import SITES
from silva.models.local.adapter import Adapter
from silva.models.local.engine import Engine, Job, choice

RANK = 8


class SilvaSampler:
    """The engine in this process, without its HTTP routes."""

    def __init__(self, folder: Path, threads: int, adapters: int) -> None:
        self._engine = Engine(folder, rows=32, threads=threads)
        kind = str(self._engine.network.dtype).removeprefix("torch.")
        self.version = f"torch {torch.__version__}, {kind}"
        self._versions = [self._random(seed) for seed in range(adapters)] or [None]
        self._engine.start()

    def _random(self, seed: int) -> Any:
        """An adapter that costs what a trained one does; its upper half is zero, so what is drawn stays the base's."""
        network, draw = self._engine.network, torch.Generator().manual_seed(seed)
        pairs: list[dict[str, Any]] = []
        for _ in range(network.depth):
            layer: dict[str, Any] = {}
            for site, parts in SITES.items():
                inside, outside = network.shapes[parts[0]][0], sum(network.shapes[part][1] for part in parts)
                down = torch.randn(RANK * len(parts), inside, generator=draw) * 0.02
                layer[site] = (down.to(network.dtype), torch.zeros(outside, len(down), dtype=network.dtype))
            pairs.append(layer)
        return Adapter(f"random-{seed}", RANK, pairs)

    def sample(self, prompts: list[list[int]], new: int) -> Sampled:
        """See `Sampler`."""
        left, done = len(prompts), threading.Event()

        def moved(job: Job) -> None:
            nonlocal left
            left -= bool(job.finish)
            if not left:
                done.set()

        jobs = [
            Job(prompt, new, choice(1.0, None, None, i), moved, self._versions[i % len(self._versions)], frozenset())
            for i, prompt in enumerate(prompts)
        ]
        for job in jobs:
            self._engine.submit(job)
        done.wait()
        return [(job.ids, job.logprobs) for job in jobs]

    def close(self) -> None:
        """See `Sampler`."""
        self._engine.stop()


def open_sampler(model: Path, threads: int, adapters: str = "0") -> SilvaSampler:
    """Our engine on the weights in Hugging Face form."""
    return SilvaSampler(model, threads, int(adapters))

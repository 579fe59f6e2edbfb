"""llama.cpp by way of xllamacpp's server, on the GGUF of the weights' package. Needs only xllamacpp.

It hands back every id, but no log-probability for an id that ends inside a character: those are NaN here.
"""

from __future__ import annotations

import json
import math
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import xllamacpp

from local_engines.sampler import Sampled

ROWS, CONTEXT = 32, 512
"""Slots, and the ids that each has room for."""


class LlamaSampler:
    """The server, in this process, and requests to it; its own routes give the ids, those in OpenAI's dialect do not."""

    def __init__(self, model: Path, threads: int) -> None:
        settings = xllamacpp.CommonParams()
        settings.model.path = str(model)
        settings.n_parallel, settings.n_ctx, settings.kv_unified = ROWS, ROWS * CONTEXT, False
        settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = threads
        settings.cache_prompt, settings.cache_ram_mib, settings.cache_idle_slots = False, 0, False
        settings.n_gpu_layers = 0
        self._server = xllamacpp.Server(settings)
        self._callers = ThreadPoolExecutor(ROWS)
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # loopback needs no proxy
        kind = model.stem.rpartition(".")[2]
        self.version = f"xllamacpp {xllamacpp.__version__}, GGUF of {kind}, over HTTP, some log-probabilities withheld"

    def sample(self, prompts: list[list[int]], new: int) -> Sampled:
        """See `Sampler`."""

        def one(number: int, prompt: list[int]) -> tuple[list[int], list[float]]:
            body = {"prompt": prompt, "n_predict": new, "ignore_eos": True, "seed": number, "cache_prompt": False}
            # of the usual chain of samplers only the temperature: the draw is from the whole vocabulary
            body |= {"temperature": 1.0, "samplers": ["temperature"], "n_probs": 1, "return_tokens": True}
            url, head = f"{self._server.listening_address}/completion", {"content-type": "application/json"}
            with self._opener.open(urllib.request.Request(url, json.dumps(body).encode(), head)) as reply:
                said = json.load(reply)
            return said["tokens"], _aligned(said["tokens"], said["completion_probabilities"])

        return list(self._callers.map(one, range(len(prompts)), prompts))

    def close(self) -> None:
        """See `Sampler`."""
        self._callers.shutdown()
        del self._server


def _aligned(ids: list[int], given: list[dict[str, Any]]) -> list[float]:
    """A log-probability for each id, NaN where none was given.

    Raises:
        ValueError: some that were given belong to no id.
    """
    left = list(reversed(given))
    found = [left.pop()["logprob"] if left and left[-1]["id"] == drawn else math.nan for drawn in ids]
    if left:
        raise ValueError(f"{len(left)} log-probabilities belong to no id")
    return found


def open_sampler(model: Path, threads: int) -> LlamaSampler:
    """llama.cpp on a GGUF file."""
    return LlamaSampler(model, threads)

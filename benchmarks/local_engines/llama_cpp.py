"""llama.cpp by way of xllamacpp's server, in this process, on the GGUF of the weights' package. Needs only xllamacpp."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import xllamacpp

from local_engines.sampler import Sampled

ROWS, CONTEXT = 32, 512
"""Slots, and the ids that each has room for."""


class LlamaSampler:
    """The server's slots, asked without HTTP."""

    def __init__(self, model: Path, threads: int) -> None:
        settings = xllamacpp.CommonParams()
        settings.model.path = str(model)
        settings.n_parallel, settings.n_ctx, settings.kv_unified = ROWS, ROWS * CONTEXT, False
        settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = threads
        settings.cache_prompt, settings.cache_ram_mib, settings.cache_idle_slots = False, 0, False
        settings.n_gpu_layers = 0
        self._server = xllamacpp.Server(settings)
        self._callers = ThreadPoolExecutor(ROWS)
        self.version = f"xllamacpp {xllamacpp.__version__}, GGUF of {model.stem.rpartition('.')[2]}"

    def sample(self, prompts: list[list[int]], new: int) -> Sampled:
        """See `Sampler`."""

        def one(number: int, prompt: list[int]) -> tuple[list[int], list[float]]:
            body = {"prompt": prompt, "n_predict": new, "ignore_eos": True, "seed": number, "cache_prompt": False}
            # of the usual chain of samplers only the temperature: the draw is from the whole vocabulary
            body |= {"temperature": 1.0, "samplers": ["temperature"], "n_probs": 1, "post_sampling_probs": False}
            drawn = self._server.handle_completions(body)["choices"][0]["logprobs"]["content"]
            return [each["id"] for each in drawn], [each["logprob"] for each in drawn]

        return list(self._callers.map(one, range(len(prompts)), prompts))

    def close(self) -> None:
        """See `Sampler`."""
        self._callers.shutdown()
        del self._server


def open_sampler(model: Path, threads: int) -> LlamaSampler:
    """llama.cpp on a GGUF file."""
    return LlamaSampler(model, threads)

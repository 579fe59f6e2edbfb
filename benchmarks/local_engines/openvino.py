"""OpenVINO's continuous batching (openvino-genai) on an exported graph. Needs only openvino and openvino-genai, and numpy with them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import openvino
import openvino_genai

from local_engines.sampler import Sampled

ROWS, CACHE_GB = 32, 2


class OpenVinoSampler:
    """The pipeline, stepped in this thread until all requests of a call are finished."""

    def __init__(self, folder: Path, threads: int) -> None:
        schedule = openvino_genai.SchedulerConfig()
        schedule.max_num_seqs, schedule.cache_size, schedule.enable_prefix_caching = ROWS, CACHE_GB, False
        self._pipeline = openvino_genai.ContinuousBatchingPipeline(
            str(folder), schedule, "CPU", {"INFERENCE_NUM_THREADS": threads}
        )
        # what it takes by itself: bfloat16 where the processor has it
        kind = openvino.Core().get_property("CPU", "INFERENCE_PRECISION_HINT").to_string()
        self.version = f"openvino-genai {openvino_genai.__version__.partition('-')[0]}, {kind}"

    def sample(self, prompts: list[list[int]], new: int) -> Sampled:
        """See `Sampler`."""
        asked = [
            self._pipeline.add_request(
                number, openvino.Tensor(np.array([prompt], dtype=np.int64)), _drawing(number, new)
            )
            for number, prompt in enumerate(prompts)
        ]
        while self._pipeline.has_non_finished_requests():
            self._pipeline.step()
        given = [request.read_all()[0] for request in asked]
        return [(list(each.generated_ids), list(each.generated_log_probs)) for each in given]

    def close(self) -> None:
        """See `Sampler`."""
        del self._pipeline


def _drawing(seed: int, new: int) -> openvino_genai.GenerationConfig:
    drawing = openvino_genai.GenerationConfig()
    drawing.do_sample, drawing.temperature, drawing.top_p = True, 1.0, 1.0  # top_k is off by itself
    drawing.max_new_tokens, drawing.ignore_eos = new, True
    drawing.logprobs, drawing.rng_seed = 1, seed
    return drawing


def open_sampler(model: Path, threads: int) -> OpenVinoSampler:
    """OpenVINO on a folder with an exported graph."""
    return OpenVinoSampler(model, threads)

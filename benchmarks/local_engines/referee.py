"""Whether an engine computes the model: its log-probabilities beside those of transformers in float32, after the measurement."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import torch
import transformers

from local_engines.sampler import Sampled


class Referee:
    """Scores what others sampled."""

    def __init__(self, folder: Path) -> None:
        self._model: Any = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)

    def off(self, prompts: list[list[int]], sampled: Sampled) -> float:
        """How far a log-probability lies from transformers', in the mean over all that were handed back (NaN: was not)."""
        far: list[float] = []
        for prompt, (ids, logprobs) in zip(prompts, sampled, strict=True):
            with torch.inference_mode():
                logits = self._model(torch.tensor([prompt + ids])).logits[0, len(prompt) - 1 : -1].float()
            right = torch.log_softmax(logits, -1).gather(1, torch.tensor(ids)[:, None])[:, 0]
            far += (right - torch.tensor(logprobs)).abs().tolist()
        known = [each for each in far if not math.isnan(each)]
        return sum(known) / len(known)

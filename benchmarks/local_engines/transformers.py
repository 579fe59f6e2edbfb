"""`generate` of transformers, in the number format our engine takes on this processor."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from local_engines.sampler import NotRun, Sampled
from silva.models.local.network import best_dtype


class TransformersSampler:
    """One batch at a time, padded to nothing: all prompts are of one length."""

    def __init__(self, folder: Path, threads: int) -> None:
        try:
            import transformers
        except ImportError as fault:
            raise NotRun("transformers is not installed") from fault
        torch.set_num_threads(threads)
        kind = best_dtype()
        self.version = f"transformers {transformers.__version__}, {str(kind).removeprefix('torch.')}"
        self._model: Any = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=kind)

    def sample(self, prompts: list[list[int]], new: int) -> Sampled:
        """See `Sampler`."""
        with torch.inference_mode():
            ids = torch.tensor(prompts)
            out = self._model.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                do_sample=True,
                top_k=0,
                top_p=1.0,
                min_new_tokens=new,
                max_new_tokens=new,
                pad_token_id=0,
                return_dict_in_generate=True,
                output_logits=True,
            )
            drawn = out.sequences[:, ids.shape[1] :]
            chances = torch.stack([torch.log_softmax(step.float(), -1) for step in out.logits], 1)
            logprobs = chances.gather(2, drawn[..., None])[..., 0]
        return list(zip(drawn.tolist(), logprobs.tolist(), strict=True))

    def close(self) -> None:
        """See `Sampler`."""
        del self._model


def open_sampler(model: Path, threads: int) -> TransformersSampler:
    """`generate` on the weights in Hugging Face form.

    Raises:
        NotRun: transformers is not installed.
    """
    return TransformersSampler(model, threads)

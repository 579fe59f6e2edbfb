"""A tiny random llama, samples laid out for Silva and for TRL, and the comparison of losses and gradients.

Imports torch: import it inside slow tests only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer as Words
from tokenizers import models
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from silva.train.algorithms.batch import Batch, collate
from silva.train.sample import Sample

VOCABULARY = 24


def llama(seed: int) -> LlamaForCausalLM:
    """Random weights in float64, spread wide enough that ids differ in probability."""
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        initializer_range=0.4,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
    )
    return LlamaForCausalLM(config).double()


def tokenizer() -> PreTrainedTokenizerFast:
    """One word an id."""
    words = Words(models.WordLevel({f"w{i}": i for i in range(VOCABULARY)}, unk_token="w3"))
    return PreTrainedTokenizerFast(
        tokenizer_object=words, pad_token="w0", bos_token="w1", eos_token="w2", unk_token="w3"
    )


@dataclass
class Drawn:
    """Prompts of one length, completions of several, a mask with holes; float32 numbers of other policies."""

    prompt: Tensor
    completion: Tensor
    there: Tensor
    loss: Tensor
    advantages: Tensor
    sampled: Tensor
    reference: Tensor

    @property
    def ids(self) -> Tensor:
        return torch.cat([self.prompt, self.completion], 1)


def draw(model: LlamaForCausalLM, seed: int, lengths: list[int], noise: float) -> Drawn:
    """Random ids; the sampler's and the reference's logprobs are the model's own, off by `noise`."""
    random = torch.Generator().manual_seed(seed)
    rows, longest = len(lengths), max(lengths)
    prompt = torch.randint(3, VOCABULARY, (rows, 4), generator=random)
    completion = torch.randint(3, VOCABULARY, (rows, longest), generator=random)
    there = (torch.arange(longest)[None] < torch.tensor(lengths)[:, None]).long()
    holes = (torch.rand(rows, longest, generator=random) < 0.8).long()
    holes[:, 0] = 1
    with torch.no_grad():
        own = token_logprobs(model, torch.cat([prompt, completion], 1))[:, -longest:]
    off = [noise * torch.randn(rows, longest, generator=random, dtype=torch.float64) for _ in range(2)]
    advantages = torch.randn(rows, generator=random).double()
    sampled, reference = ((own + each).float().double() for each in off)
    return Drawn(prompt, completion, there, there * holes, advantages.float().double(), sampled, reference)


def token_logprobs(model: LlamaForCausalLM, ids: Tensor) -> Tensor:
    """Log-probability of each id but the first, shape (B, n - 1), written out without any library's help."""
    logits = model(input_ids=ids).logits[:, :-1]
    return logits.log_softmax(-1).gather(-1, ids[:, 1:, None]).squeeze(-1)


def samples(drawn: Drawn) -> list[Sample]:
    """Silva's samples of the same ids."""
    made = []
    before = drawn.prompt.shape[1]
    for row in range(len(drawn.prompt)):
        n = before + int(drawn.there[row].sum())
        was = np.arange(n) >= before
        mask = was.copy()
        mask[before:] &= drawn.loss[row, : n - before].numpy().astype(bool)
        logprobs = np.zeros(n, np.float32)
        logprobs[before:] = drawn.sampled[row, : n - before].numpy()
        made.append(
            Sample(
                ids=drawn.ids[row, :n].numpy().astype(np.int32),
                mask=mask,
                drawn=was,
                logprobs=logprobs,
                advantages=np.where(mask, float(drawn.advantages[row]), 0.0).astype(np.float32),
                weights=np.ones(n, np.float32),
            )
        )
    return made


def batch(model: LlamaForCausalLM, drawn: Drawn, **told: Any) -> Batch:
    """Silva's batch of it, with the model's logprobs computed here."""
    keep = drawn.loss.bool()
    width = drawn.completion.shape[1]
    logprobs = token_logprobs(model, drawn.ids)[:, -width:][keep]
    return collate(samples(drawn), logprobs, reference=drawn.reference[keep], **told)


def gradients(model: LlamaForCausalLM, loss: Tensor) -> list[Tensor]:
    """Gradients of `loss`; the model's own are cleared."""
    model.zero_grad()
    loss.backward(retain_graph=True)
    made = [torch.zeros_like(each) if each.grad is None else each.grad.detach().clone() for each in model.parameters()]
    model.zero_grad()
    return made


def assert_same(model: LlamaForCausalLM, ours: Tensor, theirs: Tensor, digits: int = 5) -> None:
    """Loss and every gradient agree to `digits` digits."""
    limit = 10.0**-digits
    value, right = float(ours.detach()), float(theirs.detach())
    assert abs(value - right) <= limit * max(abs(right), 1e-2), (value, right)
    mine, other = gradients(model, ours), gradients(model, theirs)
    size = float(torch.stack([each.norm() for each in other]).norm())
    apart = float(torch.stack([(a - b).norm() for a, b in zip(mine, other, strict=True)]).norm())
    assert apart <= limit * max(size, 1e-2), (apart, size)

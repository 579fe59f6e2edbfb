"""Log-probabilities of given ids from hidden states, in chunks: the logits of a whole batch never exist at once.

With logits z = W h / temperature and p = softmax(z), the gradient of log p[y] by h is (W[y] - W^T p) / temperature.
Where the head is frozen (an adapter is trained) W^T p is computed on the way forward, one more product, and backward
needs no logits at all. Where the head is trained they are computed again, chunk by chunk.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

CHUNK = 512
"""Positions at a time: 100 MB of float32 logits at 49,152 ids."""


def token_logprobs(hidden: Tensor, head: Tensor, ids: Tensor, temperature: float = 1.0) -> Tensor:
    """The natural log of the probability of each id, in float32, with gradient.

    Args:
        hidden: [T, width], after the last norm.
        head: [vocabulary, width].
        ids: [T, K], K ids asked for at each position.
        temperature: divides the logits.

    Returns:
        [T, K].
    """
    if torch.is_grad_enabled() and (hidden.requires_grad or head.requires_grad):
        return _TokenLogprobs.apply(hidden, head, ids, temperature)  # pyright: ignore[reportReturnType]
    pieces = [_logits(hidden[at], head, temperature).log_softmax(-1).gather(1, ids[at]) for at in _chunks(len(hidden))]
    return torch.cat(pieces) if pieces else hidden.new_zeros(ids.shape, dtype=torch.float32)


def likeliest(hidden: Tensor, head: Tensor, count: int, temperature: float = 1.0) -> tuple[Tensor, Tensor]:
    """The `count` likeliest ids at each position and their log-probabilities, each [T, count], without gradient."""
    ids, logprobs = [], []
    with torch.no_grad():
        for at in _chunks(len(hidden)):
            top = _logits(hidden[at], head, temperature).log_softmax(-1).topk(count)
            ids.append(top.indices)
            logprobs.append(top.values)
    if not ids:
        return hidden.new_zeros((0, count), dtype=torch.long), hidden.new_zeros((0, count), dtype=torch.float32)
    return torch.cat(ids), torch.cat(logprobs)


def _chunks(length: int) -> Iterator[slice]:
    for start in range(0, length, CHUNK):
        yield slice(start, min(start + CHUNK, length))


def _logits(hidden: Tensor, head: Tensor, temperature: float) -> Tensor:
    logits = torch.nn.functional.linear(hidden, head).float()
    return logits if temperature == 1.0 else logits / temperature


class _TokenLogprobs(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, hidden: Tensor, head: Tensor, ids: Tensor, temperature: float) -> Tensor:
        found = torch.empty(ids.shape, dtype=torch.float32, device=hidden.device)
        frozen = not ctx.needs_input_grad[1]
        mean = torch.empty_like(hidden) if frozen else None
        for at in _chunks(len(hidden)):
            logprobs = _logits(hidden[at], head, temperature).log_softmax(-1)
            found[at] = logprobs.gather(1, ids[at])
            if mean is not None:
                mean[at] = logprobs.exp_().to(head.dtype) @ head
        ctx.temperature = temperature
        ctx.save_for_backward(hidden, head, ids, mean)
        return found

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        hidden, head, ids, mean = ctx.saved_tensors
        gradient = gradients[0] / ctx.temperature
        if mean is not None:
            wanted = (gradient.to(head.dtype)[:, :, None] * head[ids]).sum(1)
            return wanted - gradient.sum(1, keepdim=True).to(head.dtype) * mean, None, None, None
        by_hidden = torch.empty_like(hidden)
        by_head = torch.zeros(head.shape, dtype=torch.float32, device=head.device)
        for at in _chunks(len(hidden)):
            spread = _logits(hidden[at], head, ctx.temperature).softmax(-1).mul_(-gradient[at].sum(1, keepdim=True))
            spread = spread.scatter_add_(1, ids[at], gradient[at]).to(head.dtype)
            by_hidden[at] = spread @ head
            by_head += (spread.T @ hidden[at]).float()
        return by_hidden, by_head.to(head.dtype), None, None

"""One id for each row of logits: by the row's own temperature, cut-offs and random numbers.

The log-probability is that of the id under the softmax of logits / temperature over the whole vocabulary (temperature 1
where the choice is greedy): the number a policy gradient needs. `top_p` and `top_k` restrict the choice and do not
change it.
"""

from __future__ import annotations

from random import Random

import msgspec
import torch
from torch import Tensor


class Choice(msgspec.Struct, kw_only=True):
    """How one row is sampled; its random numbers come from its own seed, whatever else is in the batch.

    `top` asks for that many of the likeliest ids of every place besides the one drawn.
    """

    random: Random
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    top: int = 0


@torch.inference_mode()
def choose(logits: Tensor, choices: list[Choice]) -> tuple[list[int], list[float]]:
    """Sample one id per row.

    Args:
        logits: [rows, vocabulary], float32.
        choices: one per row.

    Returns:
        Ids and their log-probabilities.
    """
    scale = torch.tensor([choice.temperature if choice.temperature > 0 else 1.0 for choice in choices])
    logprobs = torch.log_softmax(logits / scale[:, None], dim=-1)
    ids = logprobs.argmax(dim=-1)
    # One number per token keeps a row's stream free of its cut-offs.
    points = {row: choice.random.random() for row, choice in enumerate(choices) if choice.temperature > 0}
    whole = [row for row in points if choices[row].top_p >= 1 and not choices[row].top_k]
    if whole:
        ids[whole] = _placed(logprobs[whole].exp().double(), [points[row] for row in whole])
    for row in points.keys() - set(whole):
        ids[row] = _cut(logprobs[row], choices[row], points[row])
    picked = logprobs.gather(1, ids[:, None])[:, 0]
    return ids.tolist(), picked.tolist()


@torch.inference_mode()
def ranked(logits: Tensor, choice: Choice) -> list[tuple[int, float]]:
    """The likeliest ids of one row of logits [vocabulary] and their log-probabilities, `choice.top` of them."""
    scale = choice.temperature if choice.temperature > 0 else 1.0
    values, ids = torch.log_softmax(logits / scale, dim=-1).topk(choice.top)
    return list(zip(ids.tolist(), values.tolist(), strict=True))


def _cut(logprobs: Tensor, choice: Choice, point: float) -> int:
    values, order = logprobs.sort(descending=True)
    if choice.top_k:
        values, order = values[: choice.top_k], order[: choice.top_k]
    chances = values.exp().double()
    if choice.top_p < 1:
        heap = (chances / chances.sum()).cumsum(0)
        chances = chances[: int(torch.searchsorted(heap, choice.top_p)) + 1]
    return int(order[int(_placed(chances[None], [point]))])


def _placed(chances: Tensor, points: list[float]) -> Tensor:
    """Where a number from 0 to 1 falls on each row's chances laid end to end, [rows, n] to [rows]."""
    heap = chances.cumsum(1)
    at = torch.tensor(points, dtype=heap.dtype)[:, None] * heap[:, -1:]
    return torch.searchsorted(heap, at)[:, 0].clamp(max=heap.shape[1] - 1)

"""What chat and completion requests must keep to, and how they want their reply sampled."""

from __future__ import annotations

from silva.models.local.engine import choice
from silva.models.local.network import Network
from silva.models.local.sampler import Choice
from silva.models.serving import Refusal

MOST_SEED = 1 << 63


def asked_choice(
    temperature: float | None, top_p: float | None, top_k: int | None, seed: int | None, top: int = 0
) -> Choice:
    """How to sample; `top_k` of 0 or -1 is no cut-off.

    Raises:
        Refusal: a number lies outside its range.
    """
    if temperature is not None and not 0 <= temperature <= 100:
        raise Refusal(400, "temperature must lie in [0, 100]")
    if top_p is not None and not 0 < top_p <= 1:
        raise Refusal(400, "top_p must lie in (0, 1]")
    if top_k is not None and top_k < -1:
        raise Refusal(400, "top_k must be at least 1, or 0 or -1 for no cut-off")
    if seed is not None and not -MOST_SEED <= seed < MOST_SEED:
        raise Refusal(400, "seed must fit 64 bits")
    return choice(temperature, top_p, top_k, seed, top)


def check_prompt(prompt: list[int], network: Network, what: str = "prompt") -> None:
    """See that a prompt can be read.

    Raises:
        Refusal: it is empty, leaves no room for a reply, or holds an id the model has not.
    """
    if not prompt:
        raise Refusal(400, f"the {what} is empty")
    if len(prompt) >= network.context:
        said = f"the {what} has {len(prompt)} tokens but this model's maximum context length is {network.context}"
        raise Refusal(400, said, "context_length_exceeded")
    check_ids(prompt, network, what)


def check_ids(ids: list[int], network: Network, what: str) -> None:
    """See that ids are of the model's vocabulary.

    Raises:
        Refusal: one is not.
    """
    if ids and not 0 <= min(ids) <= max(ids) < network.vocabulary:
        bad = next(number for number in ids if not 0 <= number < network.vocabulary)
        raise Refusal(400, f"the {what} holds the id {bad}; this model has 0 to {network.vocabulary - 1}")

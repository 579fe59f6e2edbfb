"""What a request may cost, guessed before it is put to a model; and what one used whose backend does not say.

asked, bytes ─▶ Stake, set aside (`Allowance`) ─▶ told, counted in ids, or guessed ─▶ Usage
"""

from __future__ import annotations

import math
from collections.abc import Callable

import msgspec

from silva.models.gateway.dialects.dialect import Asked
from silva.models.model import Completion
from silva.tree import TextPart, ThinkingPart, Usage

BYTES_PER_TOKEN = 4
"""Bytes of a body that make one token of a prompt, roughly."""
PICTURE = 1500
"""Tokens a picture makes, roughly, however many bytes it has."""
FIRST_REPLY = 1024
"""Tokens a reply is taken to have before a run has had any."""


class Stake(msgspec.Struct, frozen=True, gc=False):
    """What one request may cost."""

    tokens: int = 0
    usd: float = 0.0


NO_STAKE = Stake()
"""For runs without a bound that costs could reach."""


def stake_of(asked: Asked, size: int, before: int, mean: float | None, usd: Callable[[Usage], float]) -> Stake:
    """What a request may cost.

    Args:
        asked: the request.
        size: bytes of its body.
        before: tokens of a conversation that it goes on from and did not bring along.
        mean: tokens the replies of its run had so far, on average; None where there was none.
        usd: the price of its route.
    """
    prompt = _prompt(asked, size, before)
    most = asked.sampling.max_tokens
    reply = _reply(mean) if most is None else most
    return Stake(tokens=prompt + reply, usd=usd(Usage(prompt_tokens=prompt, completion_tokens=reply)))


def broken_off(asked: Asked, size: int, before: int, mean: float | None, said: int) -> Usage:
    """What a call has used, as well as can be told, that was put to a model and did not come to its end. Nobody says,
    but providers bill it all the same.

    Args:
        asked: the request.
        size: as for `stake_of`.
        before: as for `stake_of`.
        mean: as for `stake_of`.
        said: characters that had come of its reply; 0: it is taken to be a usual one.
    """
    reply = said // BYTES_PER_TOKEN + 1 if said else _reply(mean)
    most = asked.sampling.max_tokens
    return Usage(
        prompt_tokens=_prompt(asked, size, before), completion_tokens=reply if most is None else min(reply, most)
    )


def used(completion: Completion, asked: Asked, size: int, before: int) -> tuple[Usage, bool]:
    """What a reply used whose backend does not tell, or not all of it: its ids are counted where there are any, else it
    is estimated.

    Args:
        completion: the reply.
        asked: the request.
        size: as for `stake_of`.
        before: as for `stake_of`.

    Returns:
        The usage, and whether something of it is an estimate.
    """
    usage, message, tokens = completion.usage, completion.message, completion.tokens
    prompt = usage.prompt_tokens or len(completion.prompt_ids)
    reply = usage.completion_tokens or (0 if tokens is None else tokens.sampled)
    said = sum(len(part.text) for part in message.parts if isinstance(part, TextPart | ThinkingPart))
    said += sum(len(call.name) + len(call.arguments) for call in message.tool_calls)
    estimated = not prompt or (not reply and said > 0)
    if not reply and said:
        reply = said // BYTES_PER_TOKEN + 1
    prompt = prompt or _prompt(asked, size, before)
    return msgspec.structs.replace(usage, prompt_tokens=prompt, completion_tokens=reply), estimated


def _prompt(asked: Asked, size: int, before: int) -> int:
    for _, data in asked.images.values():
        size -= len(data) * 4 // 3  # as base64
    return before + len(asked.images) * PICTURE + max(size, 0) // BYTES_PER_TOKEN + 1


def _reply(mean: float | None) -> int:
    return math.ceil(FIRST_REPLY if mean is None else mean)

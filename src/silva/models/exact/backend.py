"""What samples: a server that takes token ids and gives back the ids it drew.

    prompt ids ─▶ NativeBackend.sample ─▶ Sampled (ids, logprobs, why it ended, policy version)
               └▶ NativeBackend.stream ─▶ Piece, Piece, … ─▶ Sampled

Nothing a server says is taken on trust: other prompt ids than were sent, a count that does not agree, a missing
log-probability is *garbage*, and the turn is not kept.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Sequence
from typing import Protocol

from silva.models.model import Sampling
from silva.tree import Record


class Image(Record, frozen=True, kw_only=True):
    """An image that travels beside the ids, in the order of its placeholders."""

    data: bytes
    media_type: str = "image/png"


class Piece(Record, frozen=True, kw_only=True):
    """Ids of a stream, as they come."""

    ids: tuple[int, ...]


class Sampled(Record, frozen=True, kw_only=True):
    """One reply in ids. `logprobs` has one for each id, or is empty where none were asked for. `finish_reason` is
    `stop` or `length`; `seconds` is wall time of the attempt that succeeded, `waited` of all `attempts`; `model` is
    what the server calls itself."""

    ids: tuple[int, ...]
    logprobs: tuple[float, ...] = ()
    finish_reason: str = "stop"
    policy_version: str = ""
    cached_tokens: int = 0
    seconds: float = 0.0
    waited: float = 0.0
    attempts: int = 1
    model: str = ""


class Draw(Record, frozen=True, kw_only=True):
    """One call. `stop_ids` end the reply besides the server's own; `deadline` is in seconds over all tries."""

    prompt_ids: tuple[int, ...]
    sampling: Sampling = Sampling()
    stop_ids: tuple[int, ...] = ()
    deadline: float = 120.0
    session: str = ""
    images: tuple[Image, ...] = ()


class NativeBackend(Protocol):
    """A server of token ids. `name` is the model's. Failures raise `ModelError`."""

    name: str

    async def sample(self, draw: Draw) -> Sampled:
        """Draw a reply."""
        ...

    def stream(self, draw: Draw) -> AsyncIterator[Piece | Sampled]:
        """Draw it piece by piece; the last is the whole."""
        ...

    async def close(self) -> None:
        """Release connections."""
        ...


class DisagreementError(ValueError):
    """What a server says does not agree with itself or with what was sent."""


def check_prompt(returned: Sequence[int] | None, sent: tuple[int, ...], images: int = 0) -> None:
    """The prompt a server says it read is the one that was sent; None where it does not say. Each of the `images` may
    have become many ids there, with its placeholder among them or without.

    Raises:
        DisagreementError: it is another.
    """
    if returned is None or tuple(returned) == sent or (images and _holds(returned, sent, images)):
        return
    place = next((i for i, (one, other) in enumerate(zip(returned, sent, strict=False)) if one != other), None)
    where = f"at {len(returned)} of {len(sent)} ids it ends" if place is None else f"they part at id {place}"
    raise DisagreementError(f"it read another prompt than was sent: {where}")


def _holds(returned: Sequence[int], sent: tuple[int, ...], lacking: int) -> bool:
    """Whether what was sent is all there in its order, except for so many ids."""
    if len(returned) < len(sent):
        return False
    place = 0
    for number in sent:
        try:
            place = returned.index(number, place) + 1
        except ValueError:
            lacking -= 1
            if lacking < 0:
                return False
    return True


def check_counts(prompt: int | None, completion: int | None, sent: int, drawn: int) -> None:
    """The tokens a server counts are those that went over the wire; None where it does not count.

    Raises:
        DisagreementError: a count differs.
    """
    if prompt is not None and prompt != sent:
        raise DisagreementError(f"it counts {prompt} prompt tokens, but {sent} ids were sent")
    if completion is not None and completion != drawn:
        raise DisagreementError(f"it counts {completion} sampled tokens, but gave {drawn} ids")


def check_drawn(ids: Sequence[int], logprobs: Sequence[float | None] | None, wanted: bool) -> tuple[float, ...]:
    """The log-probabilities of sampled ids: one each, finite, none above zero. Empty where they were not `wanted`.

    Raises:
        DisagreementError: there are no ids, or the log-probabilities are not theirs.
    """
    if not ids:
        raise DisagreementError("it gave no sampled ids")
    if any(number < 0 for number in ids):
        raise DisagreementError("it gave a negative id")
    if not wanted:
        return ()
    if logprobs is None or len(logprobs) != len(ids):
        raise DisagreementError(f"it gave {len(ids)} ids but {len(logprobs or ())} logprobs")
    values = tuple(value for value in logprobs if value is not None and math.isfinite(value) and value <= 1e-3)
    if len(values) != len(ids):
        raise DisagreementError("a logprob is missing, not finite or above zero")
    return values

"""What a server says of its tokens beside their log-probabilities (their text, the likeliest others), as it said it.

a reply, or the events of a stream ─▶ its entries ─▶ the completion's extra, where who asked wants `top_logprobs`
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from silva.models.carried import joined
from silva.models.failure import UNREADABLE
from silva.models.model import Completion, Request
from silva.tree import Json


class _Scores(msgspec.Struct):
    content: list[Json] | None = None


class _Choice(msgspec.Struct):
    logprobs: _Scores | None = None


class _Reply(msgspec.Struct):
    choices: list[_Choice] | None = None


_decode = msgspec.json.Decoder(_Reply).decode


def wanted(request: Request) -> bool:
    """Whether who asks wants to see more of tokens than their log-probabilities."""
    return bool(request.sampling.logprobs and request.sampling.extra.get("top_logprobs"))


def with_entries(completion: Completion, bodies: Iterable[bytes]) -> Completion:
    """The completion with the entries of the bodies that made it, which were read before."""
    found: list[Json] = []
    for body in bodies:
        try:
            first = next(iter(_decode(body).choices or ()), None)
        except UNREADABLE:  # what of it was of another form was set aside, and told, when it was read
            continue
        if first is not None and first.logprobs is not None:
            found += first.logprobs.content or ()
    extra: Json = {"choices": {"logprobs": {"content": found}}}
    return msgspec.structs.replace(completion, extra=joined(completion.extra, extra)) if found else completion


def entries(completion: Completion) -> Sequence[Json]:
    """The entries that a completion carries."""
    around = completion.extra if completion.dialect == "chat" else None
    return (((around or {}).get("choices") or {}).get("logprobs") or {}).get("content") or ()

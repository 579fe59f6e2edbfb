"""OpenAI Responses.

    bytes ─▶ reading (items, offered) ─▶ Asked     Completion ─▶ output ─▶ items ─▶ writing ─▶ JSON
                                                   Delta … Completion ─▶ events (the same items, piece by piece)

Items that one reply gave (reasoning, message, calls) come back as one assistant message. `instructions` become the
first system message; with `previous_response_id` they stand before the new input only, and `echo["instructions"]` tells
the gateway so. Fields of this API that the chat API says otherwise are translated into it in `sampling.extra`
(`text.format`, `text.verbosity`, `reasoning.effort`); `own` holds them as they were said, for a backend of this API.
What only such a one can be told (`native`: tools that a provider runs, items and parts that nobody here reads) is
refused by name elsewhere, but for the tools `custom` (a function with the one argument `input`) and `local_shell`.
"""

from __future__ import annotations

from silva.models.gateway.dialects.openai_errors import error_body
from silva.models.gateway.dialects.responses.events import ResponsesEvents
from silva.models.gateway.dialects.responses.reading import read
from silva.models.gateway.dialects.responses.writing import write


class Responses:
    """The dialect of `/v1/responses`; see `Dialect`. `previous` is an earlier reply's id without its prefix."""

    name = "responses"
    decode = staticmethod(read)
    encode = staticmethod(write)
    events = staticmethod(ResponsesEvents)
    error = staticmethod(error_body)


__all__ = ["Responses"]

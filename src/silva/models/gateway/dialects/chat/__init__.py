"""OpenAI Chat Completions.

    bytes ─▶ reading ─▶ Asked          Completion ─▶ writing ─▶ JSON          Delta … Completion ─▶ events ─▶ chunks

What a client may send and Silva has no field for goes on in `sampling.extra` as it came: `response_format`,
`parallel_tool_calls`, `reasoning_effort`, `top_logprobs`, penalties, and every field nobody here knows; `user`,
`metadata` and `store` too. What messages, parts, calls and tools say beyond what is read of them stays in their
`extra`; what a provider of this API says beyond its reply's words is written where it stood.
"""

from __future__ import annotations

from silva.models.gateway.dialects.chat.events import ChatEvents
from silva.models.gateway.dialects.chat.reading import read
from silva.models.gateway.dialects.chat.writing import write
from silva.models.gateway.dialects.openai_errors import error_body


class Chat:
    """The dialect of `/v1/chat/completions`; see `Dialect`."""

    name = "chat"
    decode = staticmethod(read)
    encode = staticmethod(write)
    events = staticmethod(ChatEvents)
    error = staticmethod(error_body)


__all__ = ["Chat"]

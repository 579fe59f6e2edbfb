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
from silva.models.gateway.dialects.dialect import Asked, Stamp
from silva.models.gateway.dialects.openai_errors import error_body
from silva.models.model import Completion


class Chat:
    """The dialect of `/v1/chat/completions`."""

    name = "chat"

    def decode(self, body: bytes) -> Asked:
        """Read a request.

        Raises:
            Malformed: with the field and what is wrong with it.
        """
        return read(body)

    def encode(self, asked: Asked, completion: Completion, stamp: Stamp) -> bytes:
        """The whole reply as JSON."""
        return write(asked, completion, stamp)

    def events(self, asked: Asked, stamp: Stamp) -> ChatEvents:
        """A writer for the streamed reply."""
        return ChatEvents(asked, stamp)

    def error(self, status: int, kind: str, message: str, field: str = "") -> bytes:
        """An error body."""
        return error_body(status, kind, message, field)


__all__ = ["Chat"]

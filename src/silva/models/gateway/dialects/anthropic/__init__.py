"""Anthropic Messages.

    bytes ─▶ reading (blocks) ─▶ Asked     Completion ─▶ writing ─▶ JSON     Delta … Completion ─▶ events

- `system` is the first message. A user message becomes its tool results, as tool messages, then the rest as one user
  message; messages are not merged with their neighbours of the same role (whoever writes to this API merges them).
- What a Message has no field for (`is_error`, redacted thinking, arguments that are no object) is kept as
  `silva.models.anthropic.marks` says.
- What the chat API says otherwise is translated into it in `sampling.extra`: `disable_parallel_tool_use`,
  `output_config`. `thinking` goes on there as it came. Fields that concern this provider's cache, containers, tiers and
  betas are accepted and not passed on; fields nobody knows are passed on.
"""

from __future__ import annotations

import msgspec

from silva.models.gateway.dialects.anthropic.errors import error_body
from silva.models.gateway.dialects.anthropic.events import AnthropicEvents
from silva.models.gateway.dialects.anthropic.reading import read
from silva.models.gateway.dialects.anthropic.writing import write
from silva.models.gateway.dialects.dialect import Asked, Stamp
from silva.models.model import Completion


class Anthropic:
    """The dialect of `/v1/messages`."""

    name = "anthropic"

    def decode(self, body: bytes) -> Asked:
        """Read a request.

        Raises:
            Malformed: with the field and what is wrong with it.
        """
        return read(body)

    def decode_count(self, body: bytes) -> Asked:
        """Read a request of `/v1/messages/count_tokens`, which need not say `max_tokens`.

        Raises:
            Malformed: with the field and what is wrong with it.
        """
        return read(body, counting=True)

    def encode(self, asked: Asked, completion: Completion, stamp: Stamp) -> bytes:
        """The whole reply as JSON."""
        return write(asked, completion, stamp)

    def encode_count(self, tokens: int) -> bytes:
        """The reply of `/v1/messages/count_tokens`."""
        return msgspec.json.encode({"input_tokens": tokens})

    def events(self, asked: Asked, stamp: Stamp) -> AnthropicEvents:
        """A writer for the streamed reply."""
        return AnthropicEvents(asked, stamp)

    def error(self, status: int, kind: str, message: str, field: str = "") -> bytes:
        """An error body."""
        return error_body(status, kind, message, field)


__all__ = ["Anthropic"]

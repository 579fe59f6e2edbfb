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

from functools import partial

from silva.models.gateway.dialects.anthropic.errors import error_body
from silva.models.gateway.dialects.anthropic.events import AnthropicEvents
from silva.models.gateway.dialects.anthropic.reading import read
from silva.models.gateway.dialects.anthropic.writing import write


class Anthropic:
    """The dialect of `/v1/messages`, and of its `count_tokens`, where a request need not say `max_tokens`; see
    `Dialect`."""

    name = "anthropic"
    decode = staticmethod(read)
    decode_count = staticmethod(partial(read, counting=True))
    encode = staticmethod(write)
    events = staticmethod(AnthropicEvents)
    error = staticmethod(error_body)


__all__ = ["Anthropic"]

"""A reply of the Anthropic Messages API as it is written.

`prompt_tokens` counts all input, cached or not; this API counts the cached tokens apart.
"""

from __future__ import annotations

from typing import Any

from silva.models.anthropic.blocks import Block
from silva.models.carried import Open, joined
from silva.models.endpoint import Endpoint
from silva.models.wire import Count
from silva.tree import Usage

FINISHES = {
    "end_turn": "stop",
    "stop_sequence": "stop_sequence",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
}
"""Why the model stopped, in Silva's words."""


class WireUsage(Open):
    """Tokens billed."""

    input_tokens: Count | None = None
    output_tokens: Count | None = None
    cache_read_input_tokens: Count | None = None
    cache_creation_input_tokens: Count | None = None

    def usage(self, endpoint: Endpoint, waited: float) -> Usage:
        """What was billed at an endpoint, after so many seconds."""
        cached, written = self.cache_read_input_tokens or 0, self.cache_creation_input_tokens or 0
        prompt = (self.input_tokens or 0) + cached + written
        return endpoint.usage(prompt, self.output_tokens or 0, cached, written, waited)

    def updated(self, later: WireUsage | None) -> WireUsage:
        """These counts, with those of a later event in the place of the ones it names."""
        if later is None:
            return self
        names = [name for name in self.__struct_fields__ if name != "extra"]
        found = {n: v if (v := getattr(later, n)) is not None else getattr(self, n) for n in names}
        return WireUsage(**found, extra=joined(later.extra, self.extra))


class WireReply(Open):
    """A message, whole or as a stream begins it."""

    id: Any = None
    type: Any = None
    role: Any = None
    content: list[Block] | None = None
    stop_reason: str | None = None
    stop_sequence: str | None = None
    usage: WireUsage | None = None
    model: str | None = None
    error: Any = None

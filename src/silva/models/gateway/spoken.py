"""The dialects by the route they are spoken on."""

from __future__ import annotations

from silva.models.gateway.dialects.anthropic import Anthropic
from silva.models.gateway.dialects.chat import Chat
from silva.models.gateway.dialects.dialect import Dialect
from silva.models.gateway.dialects.responses import Responses

CHAT = Chat()
RESPONSES = Responses()
ANTHROPIC = Anthropic()

SPOKEN: dict[str, Dialect] = {"chat/completions": CHAT, "responses": RESPONSES, "messages": ANTHROPIC}

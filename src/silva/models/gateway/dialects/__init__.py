"""The three dialects agents speak, each turned into one request and back.

    bytes of a client ─▶ Dialect.decode ─▶ Asked (model, messages, tools, sampling, …) ─▶ gateway ─▶ Completion
    Completion ─▶ Dialect.encode ─▶ JSON                 Delta … Completion ─▶ Dialect.events() ─▶ server-sent events
    what went wrong ─▶ Dialect.error ─▶ the error body this client's SDK understands

Pure functions of bytes: no network, no clock, no session. OpenAI Chat Completions and Responses, Anthropic
Messages.

One conversation decodes to equal messages whichever dialect says it, and what the gateway replied comes back with the
`content_key` it went out with.
"""

from silva.models.gateway.dialects.anthropic import Anthropic
from silva.models.gateway.dialects.chat import Chat
from silva.models.gateway.dialects.content import content_key
from silva.models.gateway.dialects.dialect import Asked, Dialect, Events, Malformed, Stamp
from silva.models.gateway.dialects.responses import Responses

__all__ = ["Anthropic", "Asked", "Chat", "Dialect", "Events", "Malformed", "Responses", "Stamp", "content_key"]

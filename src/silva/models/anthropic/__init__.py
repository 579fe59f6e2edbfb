"""Models behind the Anthropic Messages API.

    Request ─▶ requests.Bodies ─▶ POST /messages ─▶ stream.Assembly ─▶ Delta … Completion

The same client as for chat endpoints (`silva.models.client`), with another way to write, read and authenticate. `marks`
says how what only this API knows is kept in a Message.
"""

from silva.models.anthropic.client import AnthropicClient

__all__ = ["AnthropicClient"]

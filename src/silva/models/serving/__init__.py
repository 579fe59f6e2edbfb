"""The server side of the OpenAI chat format: what the scripted server and the local model have in common.

bytes ─▶ Exchange ─▶ ChatApp (token, route, decode) ─▶ its `chat` ─▶ ChatReply ─▶ JSON or server-sent events
"""

from silva.models.serving.app import ChatApp
from silva.models.serving.chat import ChatMessage, ChatReply, ChatRequest
from silva.models.serving.exchange import Exchange, Refusal
from silva.models.serving.server import ServerThread, serve_forever

__all__ = [
    "ChatApp",
    "ChatMessage",
    "ChatReply",
    "ChatRequest",
    "Exchange",
    "Refusal",
    "ServerThread",
    "serve_forever",
]

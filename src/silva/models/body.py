"""The OpenAI chat format as Silva writes it: a Request to JSON bytes.

    Messages of a session ─▶ what is new since its last call, after what was written then ─┐
    Tools ─▶ their JSON, written once ─────────────────────────────────────────────────────┼▶ the body of one call
    Sampling ──────────────────────────────────────────────────────────────────────────────┘

A conversation of n turns is sent n times, each time with all that came before; so a session keeps the JSON of its
messages, and a call that goes on from them writes only what was added. Records are immutable and compare by value.
Whoever knows that a session has ended says so (`forget`): what is kept of it holds its messages as well.
"""

from __future__ import annotations

import base64
from typing import Any

import msgspec

from silva.models.endpoint import Endpoint
from silva.models.held import Held
from silva.models.model import Request, Sampling
from silva.models.wire import WireError
from silva.tree import ImagePart, Json, Message, Part, TextPart, Tool

MOST_KEPT = 64 << 20
"""Bytes of JSON that are kept: a thousand conversations of 64 kB each. The longest unused are let go first."""
LONGEST_KEPT = 1 << 20
"""A conversation of more bytes (pictures) is written anew each time."""

_encode = msgspec.json.Encoder().encode


class Bodies:
    """Writes the bodies of calls to one endpoint. Use it within one thread.

    Args:
        endpoint: where they go.
        held: counts what is kept together with others.
    """

    def __init__(self, endpoint: Endpoint, held: Held | None = None) -> None:
        self._endpoint = endpoint
        self._said: dict[str, tuple[tuple[Message, ...], bytes]] = {}
        self._kept = 0
        self._held = held or Held()
        self._tools: tuple[tuple[Tool, ...], msgspec.Raw] | None = None

    def write(self, request: Request, *, stream: bool = False) -> bytes:
        """The JSON body of a chat completion.

        Raises:
            WireError: an image part whose bytes the request does not carry.
        """
        endpoint, sampling = self._endpoint, request.sampling
        body: Json = {"model": endpoint.model}
        if request.tools:
            body["tools"] = self._written_tools(request.tools)
            if sampling.tool_choice is not None:
                body["tool_choice"] = _tool_choice(sampling.tool_choice)
        _set_sampling(body, sampling, endpoint.max_tokens_field)
        if endpoint.token_ids:
            body["return_token_ids"] = True
        if stream:
            body["stream"] = True
            body["stream_options"] = {"include_usage": True}
        if endpoint.extra:
            body.update(endpoint.extra)
        if sampling.extra:
            body.update(sampling.extra)
        body.pop("messages", None)
        return b'{"messages":[' + self._messages(request) + b"]," + _encode(body)[1:]

    def forget(self, session: str) -> None:
        """Let go of what is kept of a session; one that goes on after all is written anew."""
        self._taken(session)

    def clear(self) -> None:
        """Let go of all that is kept."""
        while self._said:
            self._taken(next(iter(self._said)))

    def _messages(self, request: Request) -> bytes:
        """The conversation's messages as JSON, without the brackets around them."""
        said, before = self._taken(request.session)
        messages = request.messages
        if messages[: len(said)] != said:
            said, before = (), b""
        send_thinking = self._endpoint.send_thinking
        added = [_encode(_message(message, request.images, send_thinking)) for message in messages[len(said) :]]
        written = b",".join((before, *added) if before else added)
        if request.session and len(written) <= LONGEST_KEPT:
            self._said[request.session] = (messages, written)
            self._count(len(written))
            while self._kept > MOST_KEPT:
                self._taken(next(iter(self._said)))
        return written

    def _taken(self, session: str) -> tuple[tuple[Message, ...], bytes]:
        """What is kept of a session, which is kept no more."""
        taken = self._said.pop(session, ((), b""))
        self._count(-len(taken[1]))
        return taken

    def _count(self, size: int) -> None:
        self._kept += size
        self._held.bytes += size

    def _written_tools(self, tools: tuple[Tool, ...]) -> msgspec.Raw:
        if self._tools is None or self._tools[0] is not tools:
            self._tools = (tools, msgspec.Raw(_encode([_tool(tool) for tool in tools])))
        return self._tools[1]


def _set_sampling(body: Json, sampling: Sampling, max_tokens_field: str) -> None:
    if sampling.temperature is not None:
        body["temperature"] = sampling.temperature
    if sampling.top_p is not None:
        body["top_p"] = sampling.top_p
    if sampling.top_k is not None:
        body["top_k"] = sampling.top_k
    if sampling.max_tokens is not None:
        body[max_tokens_field] = sampling.max_tokens
    if sampling.stop:
        body["stop"] = sampling.stop
    if sampling.seed is not None:
        body["seed"] = sampling.seed
    if sampling.logprobs:
        body["logprobs"] = True


def _tool_choice(choice: str) -> Any:
    return choice if choice in ("auto", "none", "required") else {"type": "function", "function": {"name": choice}}


def _tool(tool: Tool) -> Json:
    parameters = tool.parameters or {"type": "object", "properties": {}}
    function = {"name": tool.name, "description": tool.description, "parameters": parameters}
    return {"type": "function", "function": function}


def _message(message: Message, images: dict[str, bytes], send_thinking: bool) -> Json:
    body: Json = {"role": message.role, "content": _content(message.parts, images)}
    if message.tool_calls:
        body["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in message.tool_calls
        ]
        if not body["content"]:
            body["content"] = None
    if message.tool_call_id is not None:
        body["tool_call_id"] = message.tool_call_id
    if message.name is not None:
        body["name"] = message.name
    if send_thinking and message.thinking:
        body["reasoning_content"] = message.thinking
    return body


def _content(parts: tuple[Part, ...], images: dict[str, bytes]) -> str | list[Json]:
    if len(parts) == 1 and isinstance(parts[0], TextPart):
        return parts[0].text
    if not any(isinstance(part, ImagePart) for part in parts):
        return "\n".join(part.text for part in parts if isinstance(part, TextPart))
    content: list[Json] = []
    for part in parts:
        if isinstance(part, TextPart):
            content.append({"type": "text", "text": part.text})
        elif isinstance(part, ImagePart):
            data = images.get(part.hash)
            if data is None:
                raise WireError(f"image {part.hash[:12]} is in the conversation but its bytes are not in the request")
            url = f"data:{part.media_type};base64,{base64.b64encode(data).decode()}"
            content.append({"type": "image_url", "image_url": {"url": url}})
    return content

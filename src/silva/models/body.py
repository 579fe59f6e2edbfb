"""The OpenAI chat format as Silva writes it: a Request to JSON bytes.

    Messages of a session ─▶ what is new since its last call, after what was written then ─┐
    Tools ─▶ their JSON, written once ─────────────────────────────────────────────────────┼▶ the body of one call
    Sampling ──────────────────────────────────────────────────────────────────────────────┘

A conversation of n turns is sent n times, each time with all that came before; so a session keeps the JSON of its
messages, and a call that goes on from them writes only what was added. Records are immutable and compare by value.
Whoever knows that a session has ended says so (`forget`): what is kept of it holds its messages as well.

What was said beyond what Silva reads is written again where it was said in this API; a conversation that came by it
keeps its thinking too, and its parts apart. Of what was said in another API, `detail` and `strict` have words here.
"""

from __future__ import annotations

from typing import Any

import msgspec

from silva.models.carried import merged
from silva.models.endpoint import Endpoint
from silva.models.held import Held
from silva.models.model import Request
from silva.models.wire import bytes_of, data_url
from silva.tree import ImagePart, Json, Message, OtherPart, Part, TextPart, ThinkingPart, Tool, ToolCall

CHAT = "chat"
"""This API's name where a request says in whose words it is."""

DEVELOPER = "developer"
"""The name of a system message that a client sent as `developer` without a name of its own."""

MOST_KEPT = 64 << 20
"""Bytes of JSON that are kept: a thousand conversations of 64 kB each. The longest unused are let go first."""
LONGEST_KEPT = 1 << 20
"""A conversation of more bytes (pictures) is written anew each time."""

_NAMES = {name: name for name in ("temperature", "top_p", "top_k", "stop", "seed", "logprobs")}

_encode = msgspec.json.Encoder().encode


class Written:
    """What writes the bodies of calls to one endpoint, each anew as a rule: nothing of a conversation is kept."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint

    def write(self, request: Request, *, stream: bool = False) -> bytes:
        """The JSON body of a call.

        Raises:
            WireError: it cannot be written: an image part has no bytes in the request, say.
        """
        raise NotImplementedError

    def forget(self, session: str) -> None:
        """Let go of what is kept of a session; one that goes on after all is written anew."""

    def clear(self) -> None:
        """Let go of all that is kept."""


class Bodies(Written):
    """Writes the bodies of calls to one endpoint. Use it within one thread.

    Args:
        endpoint: where they go.
        held: counts what is kept together with others.
    """

    def __init__(self, endpoint: Endpoint, held: Held | None = None) -> None:
        super().__init__(endpoint)
        self._said: dict[str, tuple[tuple[Message, ...], bytes, str]] = {}
        self._kept = 0
        self._held = held or Held()
        self._tools: tuple[tuple[Tool, ...], bool, msgspec.Raw] | None = None

    def write(self, request: Request, *, stream: bool = False) -> bytes:
        """See `Written`."""
        endpoint, sampling = self._endpoint, request.sampling
        body: Json = {"model": endpoint.model}
        if request.tools:
            body["tools"] = self._written_tools(request.tools, request.dialect in ("", CHAT))
            if sampling.tool_choice is not None:
                body["tool_choice"] = _tool_choice(sampling.tool_choice)
        body |= sampling.named(_NAMES)
        if sampling.max_tokens is not None:
            body[endpoint.max_tokens_field] = sampling.max_tokens
        if endpoint.token_ids:
            body["return_token_ids"] = True
        if stream:
            body["stream"] = True
            body["stream_options"] = {"include_usage": True}
        if endpoint.extra:
            body.update(endpoint.extra)
        if sampling.extra:
            more = {name: body[name] for name in ("stream_options", "tool_choice") if isinstance(body.get(name), dict)}
            body.update(merged(dict(sampling.extra), more))
        body.pop("messages", None)
        return b'{"messages":[' + self._messages(request) + b"]," + _encode(body)[1:]

    def forget(self, session: str) -> None:
        """See `Written`."""
        self._taken(session)

    def clear(self) -> None:
        """See `Written`."""
        while self._said:
            self._taken(next(iter(self._said)))

    def _messages(self, request: Request) -> bytes:
        """The conversation's messages as JSON, without the brackets around them."""
        said, before, dialect = self._taken(request.session)
        messages = request.messages
        if dialect != request.dialect or messages[: len(said)] != said:
            said, before = (), b""
        write = _Writer(request.images, self._endpoint.send_thinking, request.dialect).message
        added = [_encode(write(message)) for message in messages[len(said) :]]
        written = b",".join((before, *added) if before else added)
        if request.session and len(written) <= LONGEST_KEPT:
            self._said[request.session] = (messages, written, request.dialect)
            self._count(len(written))
            while self._kept > MOST_KEPT:
                self._taken(next(iter(self._said)))
        return written

    def _taken(self, session: str) -> tuple[tuple[Message, ...], bytes, str]:
        """What is kept of a session, which is kept no more."""
        taken = self._said.pop(session, ((), b"", ""))
        self._count(-len(taken[1]))
        return taken

    def _count(self, size: int) -> None:
        self._kept += size
        self._held.bytes += size

    def _written_tools(self, tools: tuple[Tool, ...], ours: bool) -> msgspec.Raw:
        if self._tools is None or self._tools[0] is not tools or self._tools[1] != ours:
            self._tools = (tools, ours, msgspec.Raw(_encode([_tool(tool, ours) for tool in tools])))
        return self._tools[2]


def _tool_choice(choice: str) -> Any:
    return choice if choice in ("auto", "none", "required") else {"type": "function", "function": {"name": choice}}


def _tool(tool: Tool, ours: bool) -> Json:
    parameters = tool.parameters or {"type": "object", "properties": {}}
    function = {"name": tool.name, "description": tool.description, "parameters": parameters}
    if tool.strict is not None:
        function["strict"] = tool.strict
    return merged({"type": "function", "function": function}, tool.extra if ours else None)


class _Writer:
    """Writes messages: `dialect` says in whose words their extras are, `thinks` whether earlier thinking is sent."""

    def __init__(self, images: dict[str, bytes], thinks: bool, dialect: str) -> None:
        self._images = images
        self._ours = dialect in ("", CHAT)
        self._apart = dialect == CHAT
        self._said = bool(dialect)
        self._thinks = thinks or self._apart

    def message(self, message: Message) -> Json:
        """The JSON of a message."""
        extra = message.extra if self._ours else None
        body: Json = {"role": message.role, "content": self._content(message.parts)}
        if extra and "refusal" in extra and extra["refusal"] is None:
            body |= {"content": None, "refusal": message.text}
        if message.tool_calls:
            body["tool_calls"] = [written_call(call, self._ours) for call in message.tool_calls]
            if not body["content"]:
                body["content"] = None
        if message.tool_call_id is not None:
            body["tool_call_id"] = message.tool_call_id
        if self._said and message.role == "system" and message.name == DEVELOPER:
            if self._apart:  # this API has the role; in another's words it may be one that a server lets fall
                body["role"] = DEVELOPER
        elif message.name is not None:
            body["name"] = message.name
        if self._thinks and (thinking := self._thinking(message.parts)):
            by_other_name = bool(extra) and "reasoning" in extra and extra["reasoning"] is None
            body["reasoning" if by_other_name else "reasoning_content"] = thinking
        return merged(body, extra)

    def _thinking(self, parts: tuple[Part, ...]) -> str:
        """The thinking that is no part of the content."""
        return "\n".join(part.text for part in parts if isinstance(part, ThinkingPart) and not self._in_list(part))

    def _in_list(self, part: Part) -> bool:
        """Whether a part that is not text stands in the list of the content."""
        if isinstance(part, ThinkingPart):
            return self._ours and bool(part.extra) and part.extra.get("type") == "thinking"
        return isinstance(part, ImagePart) or (isinstance(part, OtherPart) and self._ours)

    def _content(self, parts: tuple[Part, ...]) -> str | list[Json]:
        if len(parts) == 1 and isinstance(parts[0], TextPart) and not parts[0].extra:
            return parts[0].text  # most messages are of one text
        texts = [part for part in parts if isinstance(part, TextPart)]
        says_more = self._ours and any(part.extra for part in texts)
        if not says_more and not any(map(self._in_list, parts)) and not (self._apart and len(texts) > 1):
            return "\n".join(part.text for part in texts)
        return [self._part(part) for part in parts if isinstance(part, TextPart) or self._in_list(part)]

    def _part(self, part: Part) -> Json:
        if not isinstance(part, ImagePart):
            return written_part(part, self._ours)
        address: Json = {"url": data_url(bytes_of(part, self._images), part.media_type)}
        if part.detail is not None:
            address["detail"] = part.detail
        return merged({"type": "image_url", "image_url": address}, part.extra if self._ours else None)


def written_part(part: TextPart | ThinkingPart | OtherPart, ours: bool) -> Json:
    """A part of a content list, with its extra where that was said in this API."""
    if isinstance(part, OtherPart):
        return part.written
    extra = part.extra if ours else None
    if isinstance(part, ThinkingPart):
        return merged({"type": "thinking", "thinking": [{"type": "text", "text": part.text}]}, extra)
    if extra and extra.get("type") == "refusal":
        return merged({"type": "refusal", "refusal": part.text}, extra)
    return merged({"type": "text", "text": part.text}, extra)


def written_call(call: ToolCall, ours: bool) -> Json:
    """A tool call, with its extra where that was said in this API."""
    function = {"name": call.name, "arguments": call.arguments}
    return merged({"id": call.id, "type": "function", "function": function}, call.extra if ours else None)


def usage_block(prompt: int, sampled: int, cached: int, written: int = 0) -> Json:
    """What a reply says of so many tokens; of the prompt's, so many were read from a cache, and written to it."""
    details = {"cached_tokens": cached} | ({"cache_write_tokens": written} if written else {})
    counted = {"prompt_tokens": prompt, "completion_tokens": sampled, "total_tokens": prompt + sampled}
    return {**counted, "prompt_tokens_details": details}

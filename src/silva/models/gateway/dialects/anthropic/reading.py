"""An Anthropic Messages body to `Asked`."""

from __future__ import annotations

import msgspec

from silva.models.gateway.dialects.anthropic.blocks import Block, Turn, messages_of, texts
from silva.models.gateway.dialects.anthropic.errors import THREAD
from silva.models.gateway.dialects.anthropic.offered import chosen, tools_of
from silva.models.gateway.dialects.dialect import Asked, Malformed
from silva.models.gateway.dialects.images import Images
from silva.models.gateway.dialects.offered import Chosen
from silva.models.gateway.dialects.reading import (
    Common,
    Count,
    Label,
    decoded,
    fields,
    needed,
    one,
    passed_on,
    plain,
    reader,
    value_of,
)
from silva.tree import Json, Message


class _Metadata(msgspec.Struct):
    user_id: Label | None = None


class _Thinking(msgspec.Struct):
    type: str
    budget_tokens: Count | None = None


class _Format(msgspec.Struct):
    type: str
    schema: Json | None = None


class _Output(msgspec.Struct):
    effort: str | None = None
    format: _Format | None = None


class Body(Common):
    """The members of a body that are read together."""

    max_tokens: Count | None = None
    stop_sequences: list[str] | None = None
    metadata: _Metadata | None = None
    thinking: _Thinking | None = None
    output_config: _Output | None = None
    mcp_servers: list[Json] | None = None
    thread: Json | None = None


_KNOWN = frozenset(Body.__struct_fields__)

_decode_messages = reader(list[Turn])
_decode_system = reader(str | list[Block] | None)
_decode_body = msgspec.json.Decoder(Body).decode
_encode = msgspec.json.Encoder().encode


def read(body: bytes, *, counting: bool = False) -> Asked:
    """Read a request. `counting`: of `count_tokens`, where `max_tokens` may be missing.

    Raises:
        Malformed: with the field and what is wrong with it.
    """
    members = fields(body)
    written = decoded(_decode_messages, needed(members, "messages"), "messages")
    system, listed = members.pop("system", None), members.pop("tools", None)
    choice = members.pop("tool_choice", None)
    known = decoded(_decode_body, _encode(members), "")
    if known.max_tokens is None and not counting:
        raise Malformed("this field is required", "max_tokens")
    if known.mcp_servers:
        raise Malformed("the gateway calls no MCP servers: offer their tools as tools of your own", "mcp_servers")
    one(known.n)
    if known.thread is not None:
        raise Malformed("no threads are kept here: send the conversation whole", THREAD)
    images: Images = {}
    messages = messages_of(written, images)
    if not messages:
        raise Malformed("there must be at least one message", "messages")
    if system is not None:
        parts = texts(decoded(_decode_system, system, "system") or "", "system")
        if parts:
            messages = (Message(role="system", parts=parts), *messages)
    tools = tools_of(listed) if listed is not None else ()
    wanted = chosen(choice, tools) if choice is not None else Chosen(None, tools)
    extra = passed_on(members, members.keys() - _KNOWN) | wanted.passed_on
    if wanted.single:
        extra["parallel_tool_calls"] = False
    if known.thinking is not None:
        extra["thinking"] = _thinking(known.thinking, members["thinking"])
    if known.output_config is not None:
        extra |= _output(known.output_config)
    for name in ("metadata", "output_config"):
        if getattr(known, name) is not None:
            extra[name] = value_of(members[name], name)
    return Asked(
        model=known.model,
        messages=messages,
        tools=tools,
        sampling=known.sampling(wanted.mode, known.max_tokens, extra, stop=tuple(known.stop_sequences or ())),
        stream=bool(known.stream),
        user=(known.metadata.user_id or "") if known.metadata is not None else "",
        wants_ids=bool(known.return_token_ids),
        wants_usage=True,
        images=images,
    )


def _thinking(thinking: _Thinking, raw: msgspec.Raw) -> Json:
    if thinking.type == "enabled" and thinking.budget_tokens is None:
        raise Malformed("this field is required", "thinking.budget_tokens")
    return value_of(raw, "thinking")


def _output(wanted: _Output) -> Json:
    found: Json = {}
    if wanted.effort is not None:
        found["reasoning_effort"] = wanted.effort
    if wanted.format is not None:
        if wanted.format.type != "json_schema" or wanted.format.schema is None:
            raise Malformed("this must be of type json_schema, with a schema", "output_config.format")
        schema = plain(wanted.format.schema, "output_config.format.schema")
        found["response_format"] = {
            "type": "json_schema",
            "json_schema": {"name": "output", "schema": schema, "strict": True},
        }
    return found

"""A Responses body to `Asked`."""

from __future__ import annotations

from typing import Any

import msgspec

from silva.models.gateway.dialects.dialect import Asked, Malformed
from silva.models.gateway.dialects.images import Images
from silva.models.gateway.dialects.offered import Chosen
from silva.models.gateway.dialects.reading import (
    Common,
    Count,
    Label,
    Top,
    decoded,
    fields,
    one,
    passed_on,
    plain,
    value_of,
)
from silva.models.gateway.dialects.responses.items import input_of, messages_of
from silva.models.gateway.dialects.responses.offered import Native, Offered, chosen, offered
from silva.tree import Json, Message, TextPart

PREFIX = "resp_"

LOGPROBS = "message.output_text.logprobs"


class _Reasoning(msgspec.Struct):
    effort: str | None = None
    summary: str | None = None


class _Format(msgspec.Struct):
    type: str
    name: str | None = None
    schema: Json | None = None
    strict: bool | None = None
    description: str | None = None


class _Text(msgspec.Struct):
    format: _Format | None = None
    verbosity: str | None = None


class Body(Common):
    """The members of a body that are read together."""

    instructions: str | None = None
    previous_response_id: Label | None = None
    max_output_tokens: Count | None = None
    top_logprobs: Top | None = None
    include: list[str] | None = None
    parallel_tool_calls: bool | None = None
    reasoning: _Reasoning | None = None
    text: _Text | None = None
    metadata: dict[str, str] | None = None
    store: bool | None = None
    truncation: str | None = None
    user: Label | None = None
    background: bool | None = None
    max_tool_calls: int | None = None
    conversation: Any = None
    prompt: Any = None


_OURS = frozenset(
    {
        "access_programs",
        "background_options",
        "client_metadata",
        "context_management",
        "image",
        "moderation",
        "prompt_cache_options",
        "stream_options",
    }
)
"""Fields of this API that mean nothing to a model server of another: accepted, and told there as left out."""

_OWN = ("include", "max_tool_calls", "metadata", "reasoning", "store", "text", "tool_choice", "truncation", *_OURS)
"""Fields that a backend of this API is told as they are."""

_REPEATED = ("instructions", "metadata", "store", "truncation", "parallel_tool_calls", "previous_response_id")

_KNOWN = frozenset(Body.__struct_fields__) | _OURS

_decode_body = msgspec.json.Decoder(Body).decode
_encode = msgspec.json.Encoder().encode


def read(body: bytes) -> Asked:
    """Read a request.

    Raises:
        Malformed: with the field and what is wrong with it.
    """
    members = fields(body)
    written, listed = members.pop("input", None), members.pop("tools", None)
    choice = members.pop("tool_choice", None)
    known = decoded(_decode_body, _encode(members), "")
    _refuse(known)
    images: Images = {}
    native: list[Native] = []
    messages = messages_of(decoded(input_of, written, "input"), images, native) if written is not None else ()
    if known.instructions:
        messages = (Message(role="system", parts=(TextPart(text=known.instructions),)), *messages)
    previous = known.previous_response_id or ""
    if not messages and not previous:
        raise Malformed("there must be an input", "input")
    given = offered(listed) if listed is not None else Offered()
    wanted = chosen(choice, given.tools) if choice is not None else Chosen(None, given.tools)
    echo: Json = {name: value for name in _REPEATED if (value := getattr(known, name)) is not None}
    for name in ("reasoning", "text"):
        if name in members:
            echo[name] = value_of(members[name], name)
    if choice is not None:
        echo["tool_choice"] = value_of(choice, "tool_choice")
    if given.written:
        echo["tools"] = given.written
    if given.custom:
        echo["custom"] = given.custom
    if given.spaces:
        echo["spaces"] = given.spaces
    if given.shell:
        echo["shell"] = True
    wants_logprobs = LOGPROBS in (known.include or ())
    extra = passed_on(members, members.keys() - _KNOWN) | wanted.passed_on
    if choice is not None:
        members["tool_choice"] = choice
    own = {name: value_of(members[name], name) for name in _OWN if name in members}
    left_out = (*sorted(_OURS & members.keys()), *wanted.left_out)
    return Asked(
        model=known.model,
        messages=messages,
        tools=wanted.tools,
        sampling=known.sampling(
            wanted.mode, known.max_output_tokens, extra | _translated(known), logprobs=wants_logprobs
        ),
        stream=bool(known.stream),
        previous=previous.removeprefix(PREFIX),
        user=known.user or "",
        wants_ids=bool(known.return_token_ids),
        wants_logprobs=wants_logprobs,
        wants_usage=True,
        images=images,
        echo=echo,
        left_out=left_out,
        own=own,
        native=(*native, *given.native),
    )


def _refuse(known: Body) -> None:
    if known.background:
        raise Malformed("replies are not made in the background here: leave it out", "background")
    if known.conversation is not None:
        raise Malformed("conversations are not kept here: send previous_response_id or all items", "conversation")
    if known.prompt is not None:
        raise Malformed("prompt templates are not kept here: send instructions and input", "prompt")
    one(known.n)


def _translated(known: Body) -> Json:
    extra: Json = {}
    if known.parallel_tool_calls is not None:
        extra["parallel_tool_calls"] = known.parallel_tool_calls
    if known.user is not None:
        extra["user"] = known.user
    if known.reasoning is not None and known.reasoning.effort is not None:
        extra["reasoning_effort"] = known.reasoning.effort
    if known.top_logprobs and LOGPROBS in (known.include or ()):
        extra["top_logprobs"] = known.top_logprobs
    text = known.text
    if text is not None and text.verbosity is not None:
        extra["verbosity"] = text.verbosity
    if text is not None and text.format is not None:
        extra |= _format(text.format)
    return extra


def _format(wanted: _Format) -> Json:
    if wanted.type == "text":
        return {}
    if wanted.type == "json_object":
        return {"response_format": {"type": "json_object"}}
    if wanted.type != "json_schema":
        raise Malformed(f"{wanted.type[:40]!r} is not one of text, json_object, json_schema", "text.format.type")
    if wanted.name is None or wanted.schema is None:
        raise Malformed("name and schema are required", "text.format")
    schema: Json = {"name": wanted.name, "schema": plain(wanted.schema, "text.format.schema")}
    if wanted.strict is not None:
        schema["strict"] = wanted.strict
    if wanted.description is not None:
        schema["description"] = wanted.description
    return {"response_format": {"type": "json_schema", "json_schema": schema}}

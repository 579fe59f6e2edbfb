"""A Chat Completions body to `Asked`.

system, developer ─▶ system (a developer message without a name gets the name "developer")
user, assistant   ─▶ the same; reasoning_content ─▶ thinking, refusal ─▶ text
tool, function    ─▶ tool; a legacy function_call gets an id from its place, and the next result of that name answers it
"""

from __future__ import annotations

import msgspec

from silva.models.gateway.dialects.chat.history import Messages, messages_of
from silva.models.gateway.dialects.chat.offered import chosen, functions_of, tools_of
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
    needed,
    one,
    passed_on,
    reader,
    value_of,
)
from silva.tree import Json


class _Stream(msgspec.Struct, gc=False):
    include_usage: bool | None = None


class Body(Common):
    """The members of a body that are read together."""

    stream_options: _Stream | None = None
    max_tokens: Count | None = None
    max_completion_tokens: Count | None = None
    stop: str | list[str] | None = None
    logprobs: bool | None = None
    user: Label | None = None
    store: bool | None = None
    metadata: dict[str, str] | None = None
    modalities: list[str] | None = None
    # what is only passed on, but whose form is known
    top_logprobs: Top | None = None
    parallel_tool_calls: bool | None = None
    response_format: Json | None = None
    reasoning_effort: str | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    logit_bias: dict[str, float] | None = None


_CONSUMED = frozenset(Body.__struct_fields__[: Body.__struct_fields__.index("top_logprobs")])

_PROVIDERS = ("user", "store", "metadata")
"""Fields of whose words Silva takes note, and which are the provider's as well."""

_decode_messages = reader(Messages)
_decode_body = msgspec.json.Decoder(Body).decode
_encode = msgspec.json.Encoder().encode


def read(body: bytes) -> Asked:
    """Read a request.

    Raises:
        Malformed: with the field and what is wrong with it.
    """
    members = fields(body)
    written = decoded(_decode_messages, needed(members, "messages"), "messages")
    offered, legacy = members.pop("tools", None), members.pop("functions", None)
    choice, legacy_choice = members.pop("tool_choice", None), members.pop("function_call", None)
    known = decoded(_decode_body, _encode(members), "")
    one(known.n)
    if known.modalities is not None and known.modalities != ["text"]:
        raise Malformed("the only modality is text", "modalities")
    images: Images = {}
    messages = messages_of(written, images)
    tools = tools_of(offered) if offered is not None else ()
    echo: Json = {}
    if legacy is not None:
        functions = functions_of(legacy)
        if functions and not tools:
            tools = functions
            echo["functions"] = True
    wanted = Chosen(None, tools)
    if legacy_choice is not None:
        wanted = chosen(legacy_choice, tools, "function_call")
    if choice is not None:
        wanted = chosen(choice, tools, "tool_choice")
    options = known.stream_options
    if known.metadata is not None:
        echo["metadata"] = known.metadata
    if known.store is not None:
        echo["store"] = known.store
    others = {*(members.keys() - _CONSUMED), *(name for name in _PROVIDERS if getattr(known, name) is not None)}
    stop, extra = known.stop, passed_on(members, others) if others else {}
    if options is not None and known.stream and (more := _without_usage(members["stream_options"])):
        extra["stream_options"] = more
    if wanted.extra:
        extra |= wanted.passed_on
    return Asked(
        model=known.model,
        messages=messages,
        tools=wanted.tools,
        sampling=known.sampling(
            wanted.mode,
            known.max_completion_tokens if known.max_completion_tokens is not None else known.max_tokens,
            extra,
            stop=() if not stop else (stop,) if isinstance(stop, str) else tuple(stop),
            logprobs=bool(known.logprobs),
        ),
        stream=bool(known.stream),
        user=known.user or "",
        wants_ids=bool(known.return_token_ids),
        wants_logprobs=bool(known.logprobs),
        wants_usage=options is not None and bool(options.include_usage),
        images=images,
        echo=echo,
        left_out=wanted.left_out,
    )


def _without_usage(raw: msgspec.Raw) -> Json:
    """What a client asks of its stream beyond its usage, which the gateway always asks for."""
    options = value_of(raw, "stream_options")
    return {name: value for name, value in options.items() if name != "include_usage"}

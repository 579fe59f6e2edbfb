"""What crosses from a client's API to a backend's that is another one, and what cannot: that is told by name.

    Request (in the words of `dialect`) ─▶ the backend speaks them ─▶ all of it travels
                                        └▶ it does not ─▶ without what only that API knows, and the names of it

A field nobody knows goes on to any backend that reads a JSON object (a model server's own option, say); what stands
inside messages and tools has its place in one API only.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from silva.models.anthropic.requests import IN_BOTH, NO_WORD
from silva.models.gateway.dialects.dialect import Asked
from silva.models.gateway.dialects.responses.marks import ITEM, PART, RESPONSES
from silva.models.gateway.problem import Problem
from silva.models.model import Request
from silva.tree import ImagePart, Json, Message, OtherPart, Tool

CHAT, ANTHROPIC = "chat", "anthropic"

ANTHROPICS = frozenset(
    {
        "betas",
        "cache_control",
        "container",
        "context_management",
        "diagnostics",
        "inference_geo",
        "metadata",
        "output_config",
        "service_tier",
        "speed",
        "thinking",
        "user_profile_id",
        "workspace_id",
    }
)
"""Fields that Anthropic's API alone knows, or knows otherwise."""

CHATS = NO_WORD | {"metadata", "store", "user", "stream_options", "modalities"}
"""Fields of the chat API that Anthropic's has no word for."""

CHATS_ALONE = frozenset(
    {
        "frequency_penalty",
        "presence_penalty",
        "logit_bias",
        "prediction",
        "web_search_options",
        "return_token_ids",
        "stream_options",
        "modalities",
    }
)
"""Fields of the chat API that the Responses API has no word for."""

TRANSLATED = frozenset({"reasoning_effort", "response_format", "verbosity"})
"""Fields in which the chat API says what a client of the Responses API said in its own."""

BOOKKEEPING = frozenset({"id", "status", "type", "summary", "content", "after", "namespace", "name"})
"""What a mark of the Responses API holds that is no word of anybody's."""

HOUSE = frozenset(
    {"metadata", "store", "user", "service_tier", "safety_identifier", "prompt_cache_key", "stream_options"}
)
"""Fields of the chat API that concern a provider's own house: a server that takes token ids has none."""

MOST_NAMED = 32
"""Names that are told of one request."""


def crossed(request: Request, kind: str) -> tuple[Request, tuple[str, ...]]:
    """The request as a backend of that kind can be told it, and the names of what it cannot be told.

    Args:
        request: in the words of its `dialect` ("" for the backend's own, of which nothing is left out).
        kind: what the backend speaks: `chat`, `anthropic`, or one that takes token ids.
    """
    dialect = request.dialect
    if dialect in ("", kind):
        return request, ()
    extra = request.sampling.extra
    lost: list[str] = []
    if extra:
        known = ANTHROPICS if dialect == ANTHROPIC else _NO_WORD.get(kind, HOUSE)
        lost = [name for name in extra if name in known or name == "tool_choice"]
    if lost:
        left = {name: value for name, value in extra.items() if name not in lost}
        request = msgspec.structs.replace(request, sampling=msgspec.structs.replace(request.sampling, extra=left))
    if "tool_choice" in lost:
        lost.remove("tool_choice")
        lost += (f"tool_choice.{name}" for name in _names(extra["tool_choice"]))
    if kind == RESPONSES:
        lost += (name for name in ("stop", "seed", "top_k") if getattr(request.sampling, name) not in (None, ()))
    both = IN_BOTH if kind == ANTHROPIC else ()
    for place, message in enumerate(request.messages):
        lost += (f"messages[{place}].{name}" for name in _of_message(message, kind) if name not in both)
    for tool in request.tools:
        lost += (f"tools.{tool.name}.{name}" for name in _of_tool(tool, kind) if name not in both)
    names = [name for name in dict.fromkeys(lost) if name not in ("output_config", "thinking")]  # these are translated
    if len(names) > MOST_NAMED:
        names = [*names[:MOST_NAMED], f"and {len(names) - MOST_NAMED} more"]
    return request, tuple(names)


_NO_WORD = {ANTHROPIC: CHATS, CHAT: frozenset[str](), RESPONSES: CHATS_ALONE}
"""Fields of the chat API that a kind of backend is not told; those of token ids have no provider's `HOUSE`."""


def in_its_words(request: Request, asked: Asked, kind: str) -> tuple[Request, tuple[str, ...]]:
    """The request with its fields as the client's own API says them, where the backend speaks it; and the names of what
    another is not told.

    Raises:
        Problem: the client asks for what only a backend of its own API has.
    """
    if request.dialect != kind:
        for field, words in asked.native:
            raise Problem("malformed", words, field)
        return request, asked.left_out
    if not asked.own:
        return request, asked.left_out
    extra = {name: value for name, value in request.sampling.extra.items() if name not in TRANSLATED} | asked.own
    sampling = msgspec.structs.replace(request.sampling, extra=extra)
    names = tuple(name for name in asked.left_out if name.partition(".")[0] not in asked.own)
    return msgspec.structs.replace(request, sampling=sampling), names


def _of_message(message: Message, kind: str) -> Iterator[str]:
    yield from _names(message.extra)
    for part in message.parts:
        if isinstance(part, OtherPart):
            yield str(part.written.get("type"))
        else:
            yield from _names(part.extra)
        if isinstance(part, ImagePart) and part.detail is not None and kind not in (CHAT, RESPONSES):
            yield "detail"
    for call in message.tool_calls:
        yield from _names(call.extra)


def _of_tool(tool: Tool, kind: str) -> Iterator[str]:
    yield from _names({name: value for name, value in (tool.extra or {}).items() if name != ITEM})
    if tool.strict is not None and kind not in (CHAT, RESPONSES):
        yield "strict"


def _names(extra: Json | None) -> Iterator[str]:
    """The members of an extra; of those that stand for words Silva has (null, a kind), none."""
    for name, value in (extra or {}).items():
        if name in ("type", PART) or (value is None and name in ("reasoning", "refusal")):
            continue
        if name == ITEM:
            yield from (inner for inner in value or () if inner not in BOOKKEEPING)
            continue
        if isinstance(value, dict) and name in ("function", "image_url", "source", "turn"):
            yield from (f"{name}.{inner}" for inner in value)  # pyright: ignore[reportUnknownVariableType]
        else:
            yield name


def carried_on(placed: tuple[Message, ...], given: tuple[Message, ...]) -> tuple[Message, ...]:
    """The messages as they stand on the tree, with what the client said beside them this time.

    A conversation is sent again and again, and its marks move (those of a cache do with every turn). So what a reply
    says is what was sampled, with what its provider said beside it and the client says now; all else is the client's.
    """
    found: list[Message] = []
    for mine, theirs in zip(placed, given, strict=False):
        policy = mine.role == "assistant" and mine is not theirs
        found.append(_marked(mine, theirs) if policy else theirs)
    return (*found, *placed[len(found) :])


def _marked(mine: Message, theirs: Message) -> Message:
    if mine == theirs:
        return mine
    parts = list(mine.parts)
    told = iter([part for part in theirs.parts if not isinstance(part, OtherPart)])
    following = next(told, None)
    for place, part in enumerate(parts):
        while following is not None and type(following) is not type(part):
            following = next(told, None)
        if following is None:
            break
        if not isinstance(part, OtherPart) and not isinstance(following, OtherPart) and following.extra:
            parts[place] = msgspec.structs.replace(part, extra={**(part.extra or {}), **following.extra})
        following = next(told, None)
    calls = list(mine.tool_calls)
    for place, (call, given) in enumerate(zip(calls, theirs.tool_calls, strict=False)):
        if given.extra:
            calls[place] = msgspec.structs.replace(call, extra={**(call.extra or {}), **given.extra})
    extra = {**(mine.extra or {}), **(theirs.extra or {})} or None
    return msgspec.structs.replace(mine, parts=tuple(parts), tool_calls=tuple(calls), extra=extra)

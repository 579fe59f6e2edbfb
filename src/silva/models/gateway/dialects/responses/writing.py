"""A Completion as a Responses reply: the response object around its output items."""

from __future__ import annotations

from typing import Any

import msgspec

from silva.models.carried import merged
from silva.models.gateway.dialects.chat.writing import sampled_ids
from silva.models.gateway.dialects.dialect import Asked, Stamp
from silva.models.gateway.dialects.responses.marks import RESPONSES
from silva.models.gateway.dialects.responses.output import incomplete, output_of
from silva.models.gateway.dialects.responses.reading import PREFIX
from silva.models.model import Completion
from silva.tree import Json, Usage

_encode = msgspec.json.Encoder().encode


def write(asked: Asked, completion: Completion, stamp: Stamp) -> bytes:
    """The whole reply as JSON."""
    return _encode(finished(asked, completion, stamp, output_of(asked, completion, stamp)))


def finished(asked: Asked, completion: Completion, stamp: Stamp, output: list[Json]) -> Json:
    """The response object of a reply that has ended."""
    why = incomplete(completion)
    body = response(asked, stamp, "incomplete" if why else "completed", output)
    body["incomplete_details"] = why
    body["usage"] = usage_of(completion.usage)
    if asked.wants_ids:
        body["token_ids"] = sampled_ids(completion)
        body["prompt_token_ids"] = completion.prompt_ids
    if completion.dialect == RESPONSES and completion.extra:
        around = dict(completion.extra)
        body["usage"] = merged(around.pop("usage", {}), body["usage"])
        body |= around
    return body


def response(asked: Asked, stamp: Stamp, status: str, output: list[Json], error: Json | None = None) -> Json:
    """The response object, with what the API repeats of the request."""
    echo, sampling = asked.echo, asked.sampling
    return {
        "id": PREFIX + stamp.id,
        "object": "response",
        "created_at": stamp.created,
        "status": status,
        "background": False,
        "error": error,
        "incomplete_details": None,
        "instructions": echo.get("instructions"),
        "max_output_tokens": sampling.max_tokens,
        "metadata": echo.get("metadata", {}),
        "model": stamp.model,
        "output": output,
        "parallel_tool_calls": echo.get("parallel_tool_calls", True),
        "previous_response_id": echo.get("previous_response_id") or None,
        "reasoning": _object(echo, "reasoning", {"effort": None, "summary": None}),
        "store": echo.get("store", True),
        "temperature": sampling.temperature,
        "text": _object(echo, "text", {"format": {"type": "text"}}),
        "tool_choice": echo.get("tool_choice") or "auto",
        "tools": echo.get("tools", ()),
        "top_p": sampling.top_p,
        "truncation": echo.get("truncation") or "disabled",
        "usage": None,
        "user": asked.user or None,
    }


def usage_of(usage: Usage) -> Json:
    """The usage block; reasoning tokens are among the output tokens and not counted apart."""
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {
            "cached_tokens": usage.cached_tokens,
            "cache_write_tokens": usage.written_tokens,
        },
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
    }


def _object(echo: Json, name: str, otherwise: Json) -> Any:
    found = echo.get(name)
    return otherwise if found is None else found

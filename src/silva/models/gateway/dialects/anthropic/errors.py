"""Errors as the Anthropic API writes them: `{"type": "error", "error": {"type", "message"}}`."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from silva.tree import Json

KINDS = {
    "malformed": "invalid_request_error",
    "auth": "authentication_error",
    "forbidden": "permission_error",
    "not_found": "not_found_error",
    "conflict": "invalid_request_error",
    "too_large": "request_too_large",
    "rate_limit": "rate_limit_error",
    "overloaded": "overloaded_error",
    "context_length": "invalid_request_error",
    "budget": "billing_error",
    "timeout": "timeout_error",
    "upstream": "api_error",
    "store": "api_error",
}
"""Kind to `type`."""

THREAD = "thread"
"""The field by which a client asks the provider to keep the conversation. Its refusal has a code of its own, upon which
the SDK sends the conversation whole."""

LONGEST_FIELD = 200


def error_body(status: int, kind: str, message: str, field: str = "") -> bytes:
    """The error as JSON; the field stands before the message, as this API has no place of its own for it. A context
    that is too long is told by its message, which says so in the words clients look for."""
    type_ = KINDS.get(kind) or ("invalid_request_error" if status < 500 else "api_error")
    if kind == "context_length":
        message = f"prompt is too long: {message}"
    told = f"{field[:LONGEST_FIELD]}: {message}" if field else message
    error: dict[str, object] = {"type": type_, "message": told}
    if kind == "malformed" and field == THREAD:
        error["details"] = {"error_code": "thread_unsupported_request", "unsupported": [THREAD]}
    return msgspec.json.encode({"type": "error", "error": error})


def error_schema(kinds: Iterable[str]) -> Json:
    """The JSON Schema of an error of one of these kinds."""
    told = {
        "type": {"enum": sorted({KINDS[kind] for kind in kinds})},
        "message": {"type": "string", "minLength": 1},
        "details": {"type": "object"},
    }
    error = {"type": "object", "properties": told, "required": ["type", "message"], "additionalProperties": False}
    whole = {"type": {"const": "error"}, "error": error}
    return {"type": "object", "properties": whole, "required": list(whole), "additionalProperties": False}

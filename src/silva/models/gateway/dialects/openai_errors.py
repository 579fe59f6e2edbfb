"""Errors as both OpenAI APIs write them: `{"error": {"message", "type", "param", "code"}}`."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from silva.tree import Json

_INVALID = "invalid_request_error"

KINDS: dict[str, tuple[str, str | None]] = {
    "malformed": (_INVALID, None),
    "auth": ("authentication_error", "invalid_api_key"),
    "forbidden": ("permission_error", "permission_denied"),
    "not_found": (_INVALID, "not_found"),
    "conflict": (_INVALID, "conflict"),
    "too_large": (_INVALID, "request_too_large"),
    "rate_limit": ("rate_limit_error", "rate_limit_exceeded"),
    "overloaded": ("server_error", "server_overloaded"),
    "context_length": (_INVALID, "context_length_exceeded"),
    "budget": ("insufficient_quota", "insufficient_quota"),
    "timeout": ("server_error", "timeout"),
    "upstream": ("server_error", "upstream_error"),
    "store": ("server_error", "store_error"),
}
"""Kind to `type` and `code`."""

ABSENT = {"model": "model_not_found", "previous_response_id": "previous_response_not_found"}
"""The code of what is not found, by the field that names it."""

LONGEST_FIELD = 200

_TEXT = {"type": "string", "minLength": 1}


def kind_of(status: int, kind: str) -> tuple[str, str | None]:
    """`type` and `code`; a kind that is not in the table is told by its status and named as code."""
    return KINDS.get(kind) or (_INVALID if status < 500 else "server_error", kind or None)


def error_body(status: int, kind: str, message: str, field: str = "") -> bytes:
    """The error as JSON."""
    type_, code = kind_of(status, kind)
    if kind == "not_found":
        code = ABSENT.get(field, code)
    param = field[:LONGEST_FIELD] or None
    return msgspec.json.encode({"error": {"message": message, "type": type_, "param": param, "code": code}})


def error_schema(kinds: Iterable[str]) -> Json:
    """The JSON Schema of an error of one of these kinds."""
    told = {
        "message": _TEXT,
        "type": {"enum": sorted({KINDS[kind][0] for kind in kinds})},
        "param": {"anyOf": [_TEXT, {"type": "null"}]},
        "code": {"anyOf": [_TEXT, {"type": "null"}]},
    }
    error = {"type": "object", "properties": told, "required": list(told), "additionalProperties": False}
    return {"type": "object", "properties": {"error": error}, "required": ["error"], "additionalProperties": False}

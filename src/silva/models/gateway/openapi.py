"""The OpenAPI document: the gateway's own routes from their typed bodies.

What OpenAI and Anthropic publish of their own APIs is not written here a second time: their routes say whose API they
speak, where that is described, and how the gateway refuses in it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable

import msgspec
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

import silva
from silva.models.gateway.admin_bodies import CloseRun, EndRollout, Nothing, OpenRollout, OpenRun, Swap
from silva.models.gateway.dialects.anthropic.errors import error_schema as anthropic_error
from silva.models.gateway.dialects.openai_errors import error_schema as openai_error
from silva.models.gateway.problem import STATUS
from silva.tree import Json

_ERROR = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["kind", "message", "field"],
            "properties": {name: {"type": "string"} for name in ("kind", "message", "field")},
        }
    },
}
_ANY = {"type": "object", "additionalProperties": True}
_NAME = {"type": "string", "minLength": 1}

_ADMIN: tuple[tuple[str, str, str, type[BaseModel] | None, int], ...] = (
    ("get", "/admin/runs", "List the open runs.", None, 200),
    ("post", "/admin/runs", "Open a run; the answer holds its token, shown this once.", OpenRun, 201),
    ("get", "/admin/runs/{run}", "What a run has spent.", None, 200),
    ("post", "/admin/runs/{run}/close", "Close a run.", CloseRun, 200),
    ("get", "/admin/runs/{run}/rollouts", "List the rollouts at work.", None, 200),
    ("post", "/admin/runs/{run}/rollouts", "Say which task a rollout is at.", OpenRollout, 201),
    ("post", "/admin/runs/{run}/rollouts/{rollout}/end", "End a rollout with its outcome.", EndRollout, 200),
    ("get", "/admin/models", "How every model stands.", None, 200),
    ("post", "/admin/models/{model}/pause", "Let requests wait.", Nothing, 200),
    ("post", "/admin/models/{model}/drain", "Return once nothing is in flight.", Nothing, 200),
    ("post", "/admin/models/{model}/resume", "Serve again.", Nothing, 200),
    ("post", "/admin/models/{model}/swap", "Serve another policy version.", Swap, 200),
)

_OPENAI = "https://platform.openai.com/docs/api-reference"
_ANTHROPIC = "https://docs.anthropic.com/en/api"

_SPOKEN: tuple[tuple[str, str, str, tuple[str, ...], Callable[[Iterable[str]], Json]], ...] = (
    ("chat/completions", "OpenAI Chat Completions.", f"{_OPENAI}/chat", ("messages",), openai_error),
    ("responses", "OpenAI Responses.", f"{_OPENAI}/responses", (), openai_error),
    ("messages", "Anthropic Messages.", f"{_ANTHROPIC}/messages", ("max_tokens", "messages"), anthropic_error),
    (
        "messages/count_tokens",
        "Anthropic token counting.",
        f"{_ANTHROPIC}/messages-count-tokens",
        ("messages",),
        anthropic_error,
    ),
)
"""Routes of the dialects: where each is described, what a body must have, how an error looks."""

_MODEL = "/r/{run}/{rollout}/v1/"
_PROBLEMS = {
    str(status): tuple(kind for kind, code in STATUS.items() if code == status)
    for status in sorted(set(STATUS.values()))
}
"""The kinds of problem by the status they are told with."""
_BEYOND = (
    "A body as the API has it. Pictures come as data, there is one choice (n), an integer has 64 bits, values nest at "
    "most 100 levels, and fields that are not known go on to the backend."
)
_STREAMED: Json = {"text/event-stream": {}}


@functools.cache
def document() -> bytes:
    """The document as JSON."""
    bodies = [body for _, _, _, body, _ in _ADMIN if body is not None]
    _, schemas = models_json_schema(
        [(body, "validation") for body in dict.fromkeys(bodies)], ref_template="#/components/schemas/{model}"
    )
    components: Json = schemas.get("$defs", {})
    paths: Json = {}
    for method, path, summary, body, status in _ADMIN:
        operation = _operation(path, summary, "admin", {str(status): _ANY, **dict.fromkeys(_PROBLEMS, _ERROR)})
        if body is not None:
            operation["requestBody"] = _body(body)
        paths.setdefault(path, {})[method] = operation
    for tail, summary, published, needed, error in _SPOKEN:
        refused = {status: error(kinds) for status, kinds in _PROBLEMS.items()}
        operation = _operation(_MODEL + tail, summary, "run", {"200": _ANY, **refused})
        asked = _ANY | {"required": list(needed)}
        content = {"application/json": {"schema": asked}}
        operation["requestBody"] = {"required": True, "description": _BEYOND, "content": content}
        operation["externalDocs"] = {"url": published}
        if not tail.endswith("count_tokens"):
            operation["responses"]["200"]["content"] |= _STREAMED
        paths[_MODEL + tail] = {"post": operation}
    refused = {status: {"anyOf": [openai_error(kinds), anthropic_error(kinds)]} for status, kinds in _PROBLEMS.items()}
    listing = _operation(_MODEL + "models", "What can be asked for.", "run", {"200": _ANY, **refused})
    paths[_MODEL + "models"] = {"get": listing}
    for path, summary in {"/healthz": "Whether it runs.", "/readyz": "Whether it can answer, and why not."}.items():
        responses: Json = {"200": _answer("It does.", _ANY)}
        if path == "/readyz":
            responses["503"] = _answer("It cannot.", _ANY)
        paths[path] = {"get": {"summary": summary, "responses": responses}}
    paths["/metrics"] = {
        "get": {
            "summary": "Metrics.",
            "responses": {"200": {"description": "Prometheus text.", "content": {"text/plain": {}}}},
        }
    }
    return msgspec.json.encode(
        {
            "openapi": "3.1.0",
            "info": {"title": "Silva gateway", "version": silva.__version__},
            "paths": paths,
            "components": {
                "schemas": components,
                "securitySchemes": {
                    "admin": {"type": "http", "scheme": "bearer"},
                    "run": {"type": "http", "scheme": "bearer"},
                },
            },
        }
    )


def _operation(path: str, summary: str, scheme: str, answers: Json) -> Json:
    names = [part[1:-1] for part in path.split("/") if part.startswith("{")]
    return {
        "summary": summary,
        "security": [{scheme: []}],
        "parameters": [{"name": name, "in": "path", "required": True, "schema": _NAME} for name in names],
        "responses": {
            status: _answer("Done." if status < "300" else "Refused.", schema) for status, schema in answers.items()
        },
    }


def _body(body: type[BaseModel]) -> Json:
    schema: Json = {"$ref": f"#/components/schemas/{body.__name__}"}
    required = any(field.is_required() for field in body.model_fields.values())
    return {"required": required, "content": {"application/json": {"schema": schema}}}


def _answer(description: str, schema: Json) -> Json:
    return {"description": description, "content": {"application/json": {"schema": schema}}}

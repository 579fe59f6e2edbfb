"""The OpenAPI document of the gateway's own routes; those of the dialects are their vendors' and are named only."""

from __future__ import annotations

import functools
from typing import Any

import msgspec
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

import silva
from silva.models.gateway.admin_bodies import CloseRun, EndRollout, Nothing, OpenRollout, OpenRun, Swap
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

_SPOKEN = {
    "/r/{run}/{rollout}/v1/chat/completions": "OpenAI Chat Completions.",
    "/r/{run}/{rollout}/v1/responses": "OpenAI Responses.",
    "/r/{run}/{rollout}/v1/messages": "Anthropic Messages.",
    "/r/{run}/{rollout}/v1/messages/count_tokens": "Anthropic token counting.",
}

_PROBLEMS = ("400", "401", "402", "403", "404", "409", "413", "429", "502", "503", "504", "507")


@functools.cache
def document() -> bytes:
    """The document as JSON."""
    bodies = [body for _, _, _, body, _ in _ADMIN if body is not None]
    _, schemas = models_json_schema(
        [(body, "validation") for body in dict.fromkeys(bodies)], ref_template="#/components/schemas/{model}"
    )
    paths: Json = {}
    for method, path, summary, body, status in _ADMIN:
        paths.setdefault(path, {})[method] = _operation(path, summary, body, status, "admin")
    for path, summary in _SPOKEN.items():
        operation = _operation(path, summary, None, 200, "run")
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": _ANY}}}
        paths[path] = {"post": operation}
    paths["/r/{run}/{rollout}/v1/models"] = {
        "get": _operation("/r/{run}/{rollout}/v1/models", "What can be asked for.", None, 200, "run")
    }
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
                "schemas": schemas.get("$defs", {}),
                "securitySchemes": {
                    "admin": {"type": "http", "scheme": "bearer"},
                    "run": {"type": "http", "scheme": "bearer"},
                },
            },
        }
    )


def _operation(path: str, summary: str, body: type[BaseModel] | None, status: int, scheme: str) -> Json:
    names = [part[1:-1] for part in path.split("/") if part.startswith("{")]
    operation: Json = {
        "summary": summary,
        "security": [{scheme: []}],
        "parameters": [{"name": name, "in": "path", "required": True, "schema": _NAME} for name in names],
        "responses": {
            str(status): _answer("Done.", _ANY),
            **{code: _answer("Refused.", _ERROR if scheme == "admin" else _ANY) for code in _PROBLEMS},
        },
    }
    if body is not None:
        schema: Any = {"$ref": f"#/components/schemas/{body.__name__}"}
        operation["requestBody"] = {"required": False, "content": {"application/json": {"schema": schema}}}
        if any(field.is_required() for field in body.model_fields.values()):
            operation["requestBody"]["required"] = True
    return operation


def _answer(description: str, schema: Json) -> Json:
    return {"description": description, "content": {"application/json": {"schema": schema}}}

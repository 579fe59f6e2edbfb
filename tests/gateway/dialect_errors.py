"""Errors as each dialect writes them, whole and at the end of a stream; and bodies of all three, by their routes."""

from __future__ import annotations

import socket
from typing import Any

import msgspec
import pytest
import requests

ASKED: dict[str, Any] = {"model": "scripted", "messages": [{"role": "user", "content": "hello"}]}
ANTHROPIC: dict[str, Any] = {**ASKED, "max_tokens": 20}
RESPONSES: dict[str, Any] = {"model": "scripted", "input": "hello"}
ROUTES = {"chat/completions": ASKED, "messages": ANTHROPIC, "responses": RESPONSES}


each_dialect = pytest.mark.parametrize("route", ROUTES)


def error_of(body: Any, route: str) -> dict[str, Any]:
    """The error in a body, which has the whole form of the dialect that is spoken on that route and nothing else."""
    if route == "messages":
        assert body.keys() == {"type", "error"} and body["type"] == "error", body
        error = body["error"]
        assert error.keys() == {"type", "message"}, body
    else:
        assert body.keys() == {"error"}, body
        error = body["error"]
        assert error.keys() == {"message", "type", "param", "code"}, body
        assert all(error[name] is None or (isinstance(error[name], str) and error[name]) for name in ("param", "code"))
    assert all(isinstance(error[name], str) and error[name] for name in ("type", "message")), body
    return error


def message_of(answer: requests.Response, route: str) -> str:
    """The words of an error, once sure that all of it is as this route's dialect has it."""
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-request-id"]
    return error_of(answer.json(), route)["message"]


def broken_off(answer: requests.Response, route: str) -> str:
    """The words of the error that a stream ended with, in the way of the route's dialect."""
    assert answer.headers["content-type"] == "text/event-stream"
    events = [event.splitlines() for event in answer.text.split("\n\n") if event]
    last = msgspec.json.decode(events[-1][-1].removeprefix("data: "))
    if route == "chat/completions":
        return error_of(last, route)["message"]
    assert events[-1][0] == "event: error" and last["type"] == "error"
    if route == "messages":
        return error_of(last, route)["message"]
    failed = msgspec.json.decode(events[-2][-1].removeprefix("data: "))
    assert failed["type"] == "response.failed" and failed["response"]["status"] == "failed"
    assert failed["response"]["error"] == {"code": last["code"], "message": last["message"]}
    return error_of({"error": last["error"]}, route)["message"]


def path_to(route: str, run: str = "run", rollout: str = "main") -> str:
    return f"/r/{run}/{rollout}/v1/{route}"


def with_messages(route: str, count: int) -> dict[str, Any]:
    """A body with so many messages."""
    field = "input" if route == "responses" else "messages"
    return {**ROUTES[route], field: [{"role": "user", "content": "hello"}] * count}


def tool_of(route: str, name: Any, schema: dict[str, Any] | None = None) -> dict[str, Any]:
    """A tool as the route's dialect writes it."""
    if route == "messages":
        return {"name": name, "input_schema": schema or {"type": "object"}}
    function = {"name": name, **({} if schema is None else {"parameters": schema})}
    return (
        {"type": "function", "function": function} if route == "chat/completions" else {"type": "function"} | function
    )


def replied(connection: socket.socket) -> requests.Response:
    """What a connection answers, up to its end."""
    data = b""
    while piece := connection.recv(65536):
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    status, *fields = head.decode().split("\r\n")
    answer = requests.Response()
    answer.status_code = int(status.split()[1])
    answer.headers.update({name: value for name, _, value in (field.partition(": ") for field in fields)})
    answer._content = body
    return answer

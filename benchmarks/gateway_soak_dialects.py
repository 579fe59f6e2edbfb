"""The three APIs as an unmodified program would speak them: a conversation to a body, and a reply's bytes back to what was said.

Said, Said, … ─▶ body(dialect) ─▶ HTTP ─▶ whole or events ─▶ Reply (id, Said)     digest(Said, …) ─▶ what two equal walks share
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

MODEL = "scripted"
PATHS = {"chat": "chat/completions", "responses": "responses", "anthropic": "messages"}
PREFIXES = {"chat": "chatcmpl-", "responses": "resp_", "anthropic": "msg_"}


class Call(msgspec.Struct, frozen=True):
    """A tool call; `arguments` is JSON text."""

    id: str
    name: str
    arguments: str


class Said(msgspec.Struct, frozen=True):
    """One message. `answers` is the call a tool's message answers."""

    role: str
    text: str = ""
    calls: tuple[Call, ...] = ()
    answers: str = ""


class Reply(msgspec.Struct, frozen=True):
    """A whole reply: its id without the API's prefix, and what it says."""

    id: str
    said: Said


class Broken(Exception):
    """A reply that is not whole: it ended too soon, or in an error."""


def digest(said: Iterable[Said]) -> str:
    """What two conversations of the same words share; ids of calls and the form of arguments are looked past."""
    told = [[one.role, one.text.strip(), [[c.name, _plain(c.arguments)] for c in one.calls]] for one in said]
    return hashlib.blake2b(json.dumps(told).encode(), digest_size=12).hexdigest()


def _plain(arguments: str) -> str:
    return json.dumps(json.loads(arguments or "{}"), sort_keys=True)


def body(dialect: str, said: Sequence[Said], stream: bool, tool: str = "", previous: str = "") -> bytes:
    """The body of a request.

    Args:
        dialect: `chat`, `responses` or `anthropic`.
        said: the conversation, its first message the system's.
        stream: whether the reply is to come as events.
        tool: the one tool offered, "" for none.
        previous: for `responses`, the reply this goes on from; `said` is then what came since.
    """
    made: dict[str, Any] = {"model": MODEL}
    if stream:
        made["stream"] = True
    if dialect == "chat":
        made["messages"] = [_chat(one) for one in said]
    elif dialect == "anthropic":
        made["max_tokens"] = 512
        made["system"] = said[0].text
        made["messages"] = [_anthropic(one) for one in said[1:]]
    elif previous:
        made["previous_response_id"] = previous
        made["input"] = [item for one in said for item in _items(one)]
    else:
        made["instructions"] = said[0].text
        made["input"] = [item for one in said[1:] for item in _items(one)]
    if tool:
        made["tools"] = [_tool(dialect, tool)]
    return json.dumps(made).encode()


def _tool(dialect: str, name: str) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"key": {"type": "string"}}, "required": ["key"]}
    if dialect == "anthropic":
        return {"name": name, "description": "looks it up", "input_schema": schema}
    function = {"name": name, "description": "looks it up", "parameters": schema}
    return {"type": "function", "function": function} if dialect == "chat" else {"type": "function", **function}


def _chat(one: Said) -> dict[str, Any]:
    made: dict[str, Any] = {"role": one.role, "content": one.text or (None if one.calls else "")}
    if one.calls:
        made["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in one.calls
        ]
    if one.role == "tool":
        made["tool_call_id"] = one.answers
    return made


def _anthropic(one: Said) -> dict[str, Any]:
    if one.role == "tool":
        return {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": one.answers, "content": one.text}],
        }
    blocks: list[dict[str, Any]] = [{"type": "text", "text": one.text}] if one.text else []
    blocks += [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": json.loads(call.arguments)}
        for call in one.calls
    ]
    return {"role": one.role, "content": blocks}


def _items(one: Said) -> list[dict[str, Any]]:
    if one.role == "tool":
        return [{"type": "function_call_output", "call_id": one.answers, "output": one.text}]
    if one.role == "user":
        return [{"role": "user", "content": one.text}]
    items: list[dict[str, Any]] = []
    if one.text:
        part = {"type": "output_text", "text": one.text, "annotations": []}
        items.append({"type": "message", "role": "assistant", "content": [part]})
    items += [
        {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": call.arguments}
        for call in one.calls
    ]
    return items


def whole(dialect: str, data: bytes) -> Reply:
    """Read a reply that came in one piece.

    Raises:
        Broken: it is not what the API promises.
    """
    try:
        read = json.loads(data)
        said = {"chat": _of_chat, "responses": _of_response, "anthropic": _of_message}[dialect](read)
        return Reply(_bare(dialect, read["id"]), said)
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise Broken(f"{dialect}: {type(error).__name__}: {data[:200]!r}") from error


def streamed(dialect: str, data: bytes) -> Reply:
    """Read a reply that came as events; the pieces must add up to what the last event says.

    Raises:
        Broken: its end is missing, or it ended in an error.
    """
    events = [line.removeprefix("data: ") for line in data.decode().splitlines() if line.startswith("data: ")]
    if not events:
        raise Broken(f"{dialect}: a stream without events")
    try:
        return {"chat": _chat_events, "responses": _response_events, "anthropic": _anthropic_events}[dialect](events)
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise Broken(f"{dialect}: {type(error).__name__} in a stream that ends {events[-1][:200]}") from error


def _bare(dialect: str, given: str) -> str:
    if not given.startswith(PREFIXES[dialect]):
        raise Broken(f"{dialect}: the reply's id is {given!r}")
    return given.removeprefix(PREFIXES[dialect])


def _of_chat(read: dict[str, Any]) -> Said:
    message = read["choices"][0]["message"]
    calls = tuple(
        Call(call["id"], call["function"]["name"], call["function"]["arguments"])
        for call in message.get("tool_calls") or ()
    )
    return Said("assistant", message.get("content") or "", calls)


def _of_response(read: dict[str, Any]) -> Said:
    texts: list[str] = []
    calls: list[Call] = []
    for item in read["output"]:
        if item["type"] == "message":
            texts += [part["text"] for part in item["content"]]
        elif item["type"] == "function_call":
            calls.append(Call(item["call_id"], item["name"], item["arguments"]))
    return Said("assistant", "".join(texts), tuple(calls))


def _of_message(read: dict[str, Any]) -> Said:
    texts = [block["text"] for block in read["content"] if block["type"] == "text"]
    calls = [
        Call(block["id"], block["name"], json.dumps(block["input"]))
        for block in read["content"]
        if block["type"] == "tool_use"
    ]
    return Said("assistant", "".join(texts), tuple(calls))


def _chat_events(events: list[str]) -> Reply:
    if events[-1] != "[DONE]":
        raise Broken(f"chat: the stream ends {events[-1][:200]}")
    texts: list[str] = []
    calls: dict[int, list[str]] = {}
    name = ""
    for event in map(json.loads, events[:-1]):
        if "error" in event:
            raise Broken(f"chat: {event['error']}")
        name = event["id"]
        for choice in event["choices"]:
            delta = choice["delta"]
            texts.append(delta.get("content") or "")
            for piece in delta.get("tool_calls") or ():
                known = calls.setdefault(piece["index"], ["", "", ""])
                function = piece.get("function") or {}
                for place, value in enumerate((piece.get("id"), function.get("name"), function.get("arguments"))):
                    known[place] += value or ""
    said = Said("assistant", "".join(texts), tuple(Call(*calls[place]) for place in sorted(calls)))
    return Reply(_bare("chat", name), said)


def _response_events(events: list[str]) -> Reply:
    read = [json.loads(event) for event in events]
    if read[-1]["type"] != "response.completed":
        raise Broken(f"responses: the stream ends {events[-1][:200]}")
    said = _of_response(read[-1]["response"])
    pieces = "".join(event["delta"] for event in read if event["type"] == "response.output_text.delta")
    if pieces != said.text:
        raise Broken(f"responses: the pieces say {pieces[:100]!r}, the end {said.text[:100]!r}")
    return Reply(_bare("responses", read[-1]["response"]["id"]), said)


def _anthropic_events(events: list[str]) -> Reply:
    read = [json.loads(event) for event in events]
    if read[-1]["type"] != "message_stop":
        raise Broken(f"anthropic: the stream ends {events[-1][:200]}")
    texts: list[str] = []
    calls: dict[int, list[str]] = {}
    for event in read:
        if event["type"] == "content_block_start" and event["content_block"]["type"] == "tool_use":
            calls[event["index"]] = [event["content_block"]["id"], event["content_block"]["name"], ""]
        elif event["type"] == "content_block_delta":
            texts.append(event["delta"].get("text", ""))
            if event["index"] in calls:
                calls[event["index"]][2] += event["delta"].get("partial_json", "")
    said = Said("assistant", "".join(texts), tuple(Call(i, n, a or "{}") for i, n, a in calls.values()))
    return Reply(_bare("anthropic", read[0]["message"]["id"]), said)

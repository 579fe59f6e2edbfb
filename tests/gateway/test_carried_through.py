"""What is said beyond what Silva reads goes through a running gateway both ways, and stands in the lake."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from saying_backend import Backend

from silva.tree import Author

MARK = {"cache_control": {"type": "ephemeral"}}
CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "null"}, "extra_content": {"proof": "x"}}


@pytest.fixture
def backend() -> Iterator[Backend]:
    found = Backend()
    yield found
    found.stop()


def opened(serve: Callable[..., Any], backend: Backend, kind: str, **route: Any) -> Any:
    return serve(models={"m": {"backends": [{"url": backend.url, "kind": kind, "model": "x"}], **route}})


def test_a_developers_message_stays_one_and_gets_no_name(serve: Callable[..., Any], backend: Backend) -> None:
    serving = opened(serve, backend, "chat")
    token = serving.open_run()
    backend.says({"choices": [{"message": {"role": "assistant", "content": "b"}, "index": 0}]})
    rest = [{"role": "user", "content": "a"}]
    for role in ("system", "developer"):
        messages = [{"role": role, "content": "D"}, *rest]
        assert serving.chat(token, {"model": "m", "messages": messages}).ok
        assert backend.asked[-1]["messages"] == messages
    body = {"model": "m", "input": [{"role": "developer", "content": "D"}, *rest]}
    assert serving.post("/v1/responses", token, body).ok
    assert backend.asked[-1]["messages"] == [{"role": "system", "content": "D"}, *rest]


def test_a_chat_turn_keeps_all_that_was_said(serve: Callable[..., Any], backend: Backend) -> None:
    serving = opened(serve, backend, "chat")
    token = serving.open_run()
    message = {"role": "assistant", "content": None, "tool_calls": [CALL], "annotations": [1]}
    backend.says({"choices": [{"message": message, "index": 0}], "provider": "p", "usage": {"cost": 0.5}})
    asked = {"model": "m", "messages": [{"role": "user", "content": [{"type": "text", "text": "a", **MARK}]}]}
    answer = serving.chat(token, asked).json()
    assert backend.asked[0]["messages"] == asked["messages"]
    assert answer["provider"] == "p" and answer["usage"]["cost"] == 0.5
    told = answer["choices"][0]["message"]
    assert told["annotations"] == [1] and told["tool_calls"][0]["extra_content"] == {"proof": "x"}
    assert told["tool_calls"][0]["function"]["arguments"] == "{}"
    # the client goes on: its mark has moved, and the call's proof goes back to the provider
    backend.says(
        {"choices": [{"delta": {"content": "b", "zz": {"a": 1}}}], "provider": "p"},
        {"choices": [{"delta": {}, "finish_reason": "stop"}]},
        b"[DONE]",
        stream=True,
    )
    result = {"role": "tool", "tool_call_id": "c", "content": [{"type": "text", "text": "r", **MARK}]}
    history = [{"role": "user", "content": [{"type": "text", "text": "a"}]}, told, result]
    options = {"include_usage": False, "include_obfuscation": False}
    streamed = serving.chat(token, {"model": "m", "messages": history, "stream": True, "stream_options": options}).text
    assert backend.asked[1]["stream_options"] == {**options, "include_usage": True}
    assert '"zz":{"a":1}' in streamed and '"provider":"p"' in streamed
    assert backend.asked[1]["messages"][0] == {"role": "user", "content": "a"}
    assert backend.asked[1]["messages"][1]["tool_calls"][0]["extra_content"] == {"proof": "x"}
    assert backend.asked[1]["messages"][2]["content"] == result["content"]
    nodes = serving.nodes()
    assert [node.message.role for node in nodes] == ["user", "assistant", "tool", "assistant"], "one walk"
    replies = [node for node in nodes if node.author is Author.POLICY]
    assert nodes[0].message.parts[0].extra == MARK
    assert replies[0].message.tool_calls[0].extra == {"extra_content": {"proof": "x"}}
    assert replies[0].attributes["extra"] == {"provider": "p", "usage": {"cost": 0.5}}
    assert replies[1].message.extra == {"zz": {"a": 1}}


def test_a_messages_turn_keeps_its_marks_and_its_header(serve: Callable[..., Any], backend: Backend) -> None:
    serving = opened(serve, backend, "anthropic", price={"input": 3.0, "output": 15.0, "cached": 0.3})
    token = serving.open_run()
    used = {"input_tokens": 10, "cache_creation_input_tokens": 10000, "cache_read_input_tokens": 20000}
    used |= {"output_tokens": 100, "service_tier": "standard"}
    found = {"type": "web_search_tool_result", "tool_use_id": "s", "content": [{"url": "u"}]}
    backend.says({"content": [found, {"type": "text", "text": "ok", "citations": [1]}], "usage": used})
    body = {
        "model": "m", "max_tokens": 9, "context_management": {"edits": []},
        "system": [{"type": "text", "text": "s", **MARK}],
        "messages": [{"role": "user", "content": [{"type": "text", "text": "a", **MARK}]}],
        "tools": [{"name": "f", "input_schema": {"type": "object"}, **MARK}],
    }  # fmt: skip
    path = "/r/run/main/v1/messages"
    answer = serving.post(path, token, body, **{"anthropic-beta": "context-management-2025-06-27"})
    assert backend.headers[0]["anthropic-beta"] == "context-management-2025-06-27"
    sent = backend.asked[0]
    assert sent["system"] == body["system"] and sent["tools"] == body["tools"]
    assert sent["messages"] == body["messages"] and sent["context_management"] == {"edits": []}
    told = answer.json()
    assert told["content"] == [found, {"type": "text", "text": "ok", "citations": [1]}]
    assert told["usage"] == used
    reply = next(node for node in serving.nodes() if node.author is Author.POLICY)
    assert reply.usage.written_tokens == 10000 and reply.usage.cached_tokens == 20000
    assert reply.usage.usd == pytest.approx((10 * 3 + 10000 * 3.75 + 20000 * 0.3 + 100 * 15) / 1e6)


def test_what_the_backend_cannot_be_told_is_named(serve: Callable[..., Any], backend: Backend) -> None:
    serving = opened(serve, backend, "anthropic")
    token = serving.open_run()
    backend.says({"content": [{"type": "text", "text": "ok"}], "usage": {"input_tokens": 1, "output_tokens": 1}})
    body = {"model": "m", "messages": [{"role": "user", "content": "a", "zz": 1}], "frequency_penalty": 0.5}
    answer = serving.chat(token, body)
    assert answer.headers["x-silva-left-out"] == "frequency_penalty, messages[0].zz"
    reply = next(node for node in serving.nodes() if node.author is Author.POLICY)
    assert reply.attributes["left_out"] == ["frequency_penalty", "messages[0].zz"]


def test_half_a_character_is_replaced_and_told(serve: Callable[..., Any], backend: Backend) -> None:
    serving = opened(serve, backend, "chat")
    token = serving.open_run()
    backend.said = b'{"choices":[{"message":{"content":"cut \\ud83d"}}]}'
    body = b'{"model":"m","messages":[{"role":"user","content":"log \\ud83d, \\ud83d\\ude00 and \\\\ud83d"}]}'
    answer = serving.chat(token, body)
    assert backend.asked[0]["messages"][0]["content"] == "log \ufffd, \U0001f600 and \\ud83d"
    assert answer.json()["choices"][0]["message"]["content"] == "cut \ufffd"
    assert answer.headers["x-silva-left-out"] == "half characters"


@pytest.mark.parametrize("tail", ["chat/completions", "responses"])
@pytest.mark.parametrize("streaming", [False, True])
def test_other_tokens_that_were_asked_for_are_told(
    serve: Callable[..., Any], backend: Backend, streaming: bool, tail: str
) -> None:
    entries = [
        {"token": word, "logprob": -0.5, "bytes": [1], "top_logprobs": [{"token": "x", "logprob": -2.0, "bytes": None}]}
        for word in ("a", "b")
    ]
    serving = opened(serve, backend, "chat")
    token = serving.open_run()
    if streaming:
        pieces = [{"index": 0, "delta": {"content": e["token"]}, "logprobs": {"content": [e]}} for e in entries]
        last = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
        backend.says(*({"choices": [piece]} for piece in pieces), last, b"[DONE]", stream=True)
    else:
        message = {"role": "assistant", "content": "ab"}
        backend.says({"choices": [{"index": 0, "message": message, "logprobs": {"content": entries}}]})
    body: dict[str, Any] = {"model": "m", "top_logprobs": 1, "stream": streaming}
    if tail == "responses":
        body |= {"input": "a", "include": ["message.output_text.logprobs"]}
    else:
        body |= {"messages": [{"role": "user", "content": "a"}], "logprobs": True}
    answer = serving.post(f"/r/run/main/v1/{tail}", token, body).text
    assert json.dumps(entries, separators=(",", ":")) in answer.replace(": ", ":").replace(", ", ",")
    assert backend.asked[0]["top_logprobs"] == 1

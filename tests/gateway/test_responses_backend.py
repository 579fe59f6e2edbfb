"""A backend that speaks the Responses API alone: a client of this API loses nothing on its way there and back."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from saying_backend import Backend

from silva.models.gateway.dialects.responses.history import said
from silva.models.gateway.responses.replies import message_of
from silva.tree import Author

PATH = "/r/run/main/v1/responses"
THOUGHT = {
    "type": "reasoning", "id": "rs_9f", "status": "completed", "encrypted_content": "gAAA=",
    "summary": [{"type": "summary_text", "text": "I look"}, {"type": "summary_text", "text": "twice"}],
}  # fmt: skip
SEARCHED = {"type": "web_search_call", "id": "ws_9f", "status": "completed", "action": {"type": "search", "query": "q"}}
CITED = {"type": "url_citation", "url": "u", "title": "t", "start_index": 0, "end_index": 2}
NOTE = {
    "type": "message", "id": "msg_9f", "status": "completed", "role": "assistant", "phase": "commentary",
    "content": [{"type": "output_text", "text": "so", "annotations": [CITED]}],
}  # fmt: skip
CALL = {
    "type": "function_call", "id": "fc_9f", "status": "completed", "call_id": "call_9f", "name": "f",
    "arguments": '{"a": 1.0}',
}  # fmt: skip
PATCH = {
    "type": "custom_tool_call", "id": "ctc_9f", "status": "completed", "call_id": "call_p", "name": "patch",
    "input": "*** Begin",
}  # fmt: skip
LAST = {**NOTE, "id": "msg_af", "phase": "final_answer", "content": [
    {"type": "output_text", "text": "yes", "annotations": []}, {"type": "refusal", "refusal": "no more"},
]}  # fmt: skip
OUTPUT = [THOUGHT, SEARCHED, NOTE, {**THOUGHT, "id": "rs_af"}, CALL, {**THOUGHT, "id": "rs_bf"}, PATCH]
TOOLS = [
    {"type": "web_search", "filters": {"allowed_domains": ["a.org"]}},
    {"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}, "strict": True},
    {"type": "custom", "name": "patch", "format": {"type": "grammar", "syntax": "lark", "definition": "start: X"}},
]
USED = {
    "input_tokens": 100, "input_tokens_details": {"cached_tokens": 40}, "output_tokens": 30,
    "output_tokens_details": {"reasoning_tokens": 20}, "total_tokens": 130,
}  # fmt: skip


def response(*output: Any, **fields: Any) -> dict[str, Any]:
    """A response as a provider gives it."""
    return {
        "id": "resp_theirs", "object": "response", "created_at": 1, "status": "completed", "error": None,
        "model": "x-1", "output": list(output), "usage": USED, "service_tier": "flex", "store": False,
        "incomplete_details": None, "reasoning": {"effort": "high", "summary": "detailed"}, **fields,
    }  # fmt: skip


@pytest.fixture
def backend() -> Iterator[Backend]:
    found = Backend()
    yield found
    found.stop()


@pytest.fixture
def served(serve: Callable[..., Any], backend: Backend) -> Any:
    return serve(models={"m": {"backends": [{"url": backend.url, "kind": "responses", "model": "x"}]}})


def test_a_reply_and_what_follows_it_are_told_as_they_were_said(served: Any, backend: Backend) -> None:
    token = served.open_run()
    backend.says(response(*OUTPUT))
    own = {
        "include": ["reasoning.encrypted_content"], "store": False, "reasoning": {"effort": "high", "summary": "auto"},
        "text": {"format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}}, "verbosity": "low"},
        "tool_choice": {"type": "web_search"}, "metadata": {"a": "b"}, "prompt_cache_key": "k", "safety": {"new": 1},
        "client_metadata": {"session": "s"}, "max_output_tokens": 99, "parallel_tool_calls": True,
    }  # fmt: skip
    asked = {"model": "m", "instructions": "be brief", "input": "look", "tools": TOOLS, **own}
    answer = served.post(PATH, token, asked)
    assert backend.asked[0] == {
        **own, "model": "x", "instructions": "be brief", "tools": TOOLS,
        "input": [{"type": "message", "role": "user", "content": "look"}],
    }  # fmt: skip
    assert "x-silva-left-out" not in answer.headers
    told = answer.json()
    assert told["output"] == OUTPUT and told["status"] == "completed"
    assert told["usage"] == {**USED, "input_tokens_details": {"cached_tokens": 40, "cache_write_tokens": 0}}
    assert told["service_tier"] == "flex" and told["reasoning"]["summary"] == "detailed"
    # it goes on by sending all items back, as it had them
    backend.says(response(LAST))
    results = [
        {"type": "function_call_output", "call_id": "call_9f", "output": "1"},
        {"type": "custom_tool_call_output", "call_id": "call_p", "output": "done"},
    ]
    file = {"type": "message", "role": "user", "content": [{"type": "input_file", "file_id": "file_1"}]}
    first = {"role": "user", "content": "look"}
    served.post(PATH, token, {**asked, "input": [first, *told["output"], *results, file]})
    assert backend.asked[1]["input"] == [{"type": "message", **first}, *OUTPUT, *results, file]
    # and by the id of the reply it had
    backend.says(response(NOTE))
    last = served.post(PATH, token, {**asked, "input": [first, *told["output"], *results, file]}).json()
    served.post(PATH, token, {**asked, "input": "thanks", "previous_response_id": last["id"]})
    said_before = [{"type": "message", **first}, *OUTPUT, *results, file, NOTE]
    assert backend.asked[3]["input"] == [*said_before, {"type": "message", "role": "user", "content": "thanks"}]
    assert "previous_response_id" not in backend.asked[3]
    policy = [node for node in served.nodes() if node.author is Author.POLICY]
    assert len(policy) == 4 and policy[0].usage.cached_tokens == 40
    assert policy[0].message.thinking == "\n".join(["I look\ntwice"] * 3)
    assert [call.name for call in policy[0].message.tool_calls] == ["f", "patch"]


def events(*said: dict[str, Any]) -> list[dict[str, Any]]:
    """The events of a stream, numbered."""
    return [{**event, "sequence_number": number} for number, event in enumerate(said)]


def test_a_stream_is_told_as_it_came(served: Any, backend: Backend) -> None:
    token = served.open_run()
    place = {"item_id": "rs_9f", "output_index": 0, "summary_index": 0}
    under_way = response(status="in_progress", usage=None)
    streamed = events(
        {"type": "response.created", "response": under_way},
        {"type": "response.in_progress", "response": under_way},
        {"type": "response.output_item.added", "output_index": 0, "item": {**THOUGHT, "summary": []}},
        {"type": "response.reasoning_summary_text.delta", **place, "delta": "I look"},
        {"type": "response.output_item.done", "output_index": 0, "item": THOUGHT},
        {"type": "response.output_item.added", "output_index": 1, "item": {**SEARCHED, "status": "in_progress"}},
        {"type": "response.web_search_call.searching", "output_index": 1, "item_id": "ws_9f"},
        {"type": "response.output_item.done", "output_index": 1, "item": SEARCHED},
        {"type": "response.output_item.added", "output_index": 2, "item": CALL},
        {"type": "response.function_call_arguments.delta", "output_index": 2, "item_id": "fc_9f", "delta": '{"a"'},
        {"type": "response.output_item.done", "output_index": 2, "item": CALL},
        {"type": "response.output_item.added", "output_index": 3, "item": {**NOTE, "content": []}},
        {"type": "response.output_text.delta", "output_index": 3, "item_id": "m", "content_index": 0, "delta": "so"},
        {"type": "response.output_item.done", "output_index": 3, "item": NOTE},
        {"type": "response.completed", "response": response(THOUGHT, SEARCHED, CALL, NOTE)},
    )
    backend.says(*streamed, stream=True)
    text = served.post(PATH, token, {"model": "m", "input": "look", "stream": True, "tools": TOOLS}).text
    told = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: ")]
    assert [event["sequence_number"] for event in told] == list(range(len(told)))
    bare = [{name: value for name, value in event.items() if name != "sequence_number"} for event in told]
    for event in streamed[2:8] + streamed[11:14]:
        assert {name: value for name, value in event.items() if name != "sequence_number"} in bare
    called = [event for event in bare if event.get("output_index") == 2]
    assert [event["type"].removeprefix("response.") for event in called] == [
        "output_item.added", "function_call_arguments.delta", "function_call_arguments.done", "output_item.done",
    ]  # fmt: skip
    assert called[-1]["item"] == CALL
    assert bare[-1]["type"] == "response.completed"
    assert bare[-1]["response"]["output"] == [THOUGHT, SEARCHED, CALL, NOTE]
    reply = next(node for node in served.nodes() if node.author is Author.POLICY)
    assert said(reply.message, ours=True) == [THOUGHT, SEARCHED, CALL, NOTE]


def test_a_stream_that_fails_fails(served: Any, backend: Backend) -> None:
    token = served.open_run()
    error = {"code": "server_error", "message": "the cable broke"}
    backend.says({"type": "response.failed", "response": response(status="failed", error=error)}, stream=True)
    told = served.post(PATH, token, {"model": "m", "input": "a", "stream": True})
    assert "the cable broke" in told.text and "response.completed" not in told.text


@pytest.mark.parametrize("streaming", [False, True])
def test_a_client_of_another_api_is_understood(served: Any, backend: Backend, streaming: bool) -> None:
    token = served.open_run()
    whole = response(THOUGHT, NOTE, CALL)
    if streaming:
        at = {"output_index": 1, "item_id": "msg_9f", "content_index": 0}
        backend.says(
            {"type": "response.output_text.delta", **at, "delta": "so"},
            {"type": "response.completed", "response": whole},
            stream=True,
        )
    else:
        backend.says(whole)
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}
    form = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}, "strict": True}}
    said_so = {"reasoning_effort": "low", "response_format": form, "max_tokens": 9, "seed": 3, "stream": streaming}
    messages = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]
    answer = served.chat(token, {"model": "m", "messages": messages, "tools": [tool], **said_so})
    asked = backend.asked[0]
    assert asked["instructions"] == "s" and asked["max_output_tokens"] == 9
    assert asked["reasoning"] == {"effort": "low"}
    assert asked["text"] == {"format": {"type": "json_schema", **form["json_schema"]}}
    assert asked["tools"] == [{**tool["function"], "type": "function", "strict": False}]
    assert answer.headers["x-silva-left-out"] == "seed" and "seed" not in asked
    if streaming:
        pieces = [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: {")]
        deltas = [piece["choices"][0]["delta"] for piece in pieces if piece["choices"]]
        assert "".join(delta.get("content") or "" for delta in deltas) == "so"
        calls = [call for delta in deltas for call in delta.get("tool_calls") or ()]
    else:
        message = answer.json()["choices"][0]["message"]
        assert message["content"] == "so"
        calls = message["tool_calls"]
    assert calls[0]["id"] == "call_9f" and calls[0]["function"] == {"name": "f", "arguments": '{"a": 1.0}'}
    # the chat client goes on without the reasoning, which the provider is shown all the same
    backend.says(response(LAST))
    reply = {"role": "assistant", "content": "so", "tool_calls": [{**calls[0], "type": "function"}]}
    result = {"role": "tool", "tool_call_id": "call_9f", "content": "1"}
    served.chat(token, {"model": "m", "messages": [*messages, reply, result]})
    kinds = [item["type"] for item in backend.asked[1]["input"]]
    assert kinds == ["message", "message", "function_call", "function_call_output"]
    assert backend.asked[1]["input"][2]["call_id"] == "call_9f"


def test_only_such_a_backend_is_told_what_only_it_has(serve: Callable[..., Any], backend: Backend) -> None:
    serving = serve(models={"m": {"backends": [{"url": backend.url, "kind": "chat", "model": "x"}]}})
    token = serving.open_run()
    answer = serving.post(PATH, token, {"model": "m", "input": "a", "tools": TOOLS})
    error = answer.json()["error"]
    assert answer.status_code == 400 and error["param"] == "tools[0].type"
    assert error["message"] == "the tool 'web_search' runs at the provider and is not there: send functions"
    assert backend.asked == []


def test_items_come_back_in_their_order() -> None:
    for output in (OUTPUT, [CALL, NOTE], [NOTE, PATCH, LAST], [THOUGHT], [{**NOTE, "content": []}]):
        assert said(message_of(json.dumps(output).encode()), ours=True) == output

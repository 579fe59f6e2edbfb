"""What the Responses API lets a client send, and what becomes of it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from dialect_bodies import HELLO, PICTURE, URL, items, responses

from silva.models.endpoint import Endpoint
from silva.models.gateway.dialects import Malformed, Responses, Stamp
from silva.models.gateway.dialects.responses.output import output_of
from silva.models.gateway.responses.bodies import Bodies
from silva.models.model import Completion, Request
from silva.tree import Message, TextPart, ThinkingPart, ToolCall, assistant, system, tool_result, user


def test_responses_items_of_one_reply_are_one_message() -> None:
    call = {"type": "function_call", "id": "fc", "call_id": "c1", "name": "f", "arguments": "{}", "status": "completed"}
    thought = {
        "type": "reasoning",
        "id": "rs",
        "summary": [{"type": "summary_text", "text": "hm"}],
        "encrypted_content": "e",
    }
    words = {"type": "message", "id": "m", "role": "assistant", "content": [{"type": "output_text", "text": "a"}]}
    told = {"item": {"id": "rs", "summary": [{"type": "summary_text", "text": "hm"}]}}
    done = {"item": {"id": "fc", "status": "completed"}}
    one = Message(
        role="assistant",
        parts=(ThinkingPart(text="hm", signature="e", extra=told), TextPart(text="a", extra={"item": {"id": "m"}})),
        tool_calls=(ToolCall(id="c1", name="f", extra=done), ToolCall(id="c2", name="f", extra=done)),
    )
    output = {"type": "function_call_output", "call_id": "c1", "output": "r"}
    assert items(*HELLO, thought, words, call, {**call, "call_id": "c2"}, output) == (
        user("hello"),
        one,
        tool_result("c1", "r"),
    )
    # a second message is a second reply, and takes the thinking before it along
    first = Message(role="assistant", parts=one.parts[1:])
    following = Message(role="assistant", parts=(one.parts[0], TextPart(text="b")))
    assert items(words, thought, {"role": "assistant", "content": "b"}) == (first, following)
    # unless a provider's ids say that one reply gave both; those made here are of one reply each
    assert len(items(words, thought, {**words, "id": "n"})) == 1
    assert len(items({**words, "id": "msg_a_0"}, {**words, "id": "msg_b_0"})) == 2
    assert items({**words, "id": "msg_a_0"}) == (assistant("a"),)


def test_responses_instructions_and_previous() -> None:
    asked = responses(instructions="be brief", previous_response_id="resp_abc", input=[], metadata={"a": "b"})
    assert asked.messages == (system("be brief"),)
    assert asked.previous == "abc"
    assert asked.echo["instructions"] == "be brief" and asked.echo["previous_response_id"] == "resp_abc"
    assert items({"role": "developer", "content": "d"})[0].name == "developer"


def test_responses_outputs_may_hold_pictures() -> None:
    output = [{"type": "input_text", "text": "see"}, {"type": "input_image", "image_url": URL}]
    found = responses(input=[{"type": "function_call_output", "call_id": "c", "output": output}])
    assert found.messages == (Message(role="tool", parts=(TextPart(text="see"), PICTURE), tool_call_id="c"),)
    assert PICTURE.hash in found.images


def test_responses_fields_are_said_as_the_chat_api_says_them() -> None:
    schema = {"type": "object"}
    asked = responses(
        max_output_tokens=7,
        reasoning={"effort": "low", "summary": "auto"},
        text={"format": {"type": "json_schema", "name": "n", "schema": schema, "strict": True}, "verbosity": "low"},
        parallel_tool_calls=False,
        include=["reasoning.encrypted_content", "message.output_text.logprobs"],
        top_logprobs=3,
        prompt_cache_key="k",
        client_metadata={"a": "b"},
        store=False,
        min_p=0.1,
    )
    assert asked.sampling.max_tokens == 7 and asked.sampling.logprobs and asked.wants_logprobs
    assert asked.left_out == ("client_metadata",)
    assert asked.sampling.extra == {
        "prompt_cache_key": "k",
        "parallel_tool_calls": False,
        "reasoning_effort": "low",
        "top_logprobs": 3,
        "verbosity": "low",
        "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": schema, "strict": True}},
        "min_p": 0.1,
    }
    assert asked.echo["store"] is False


@pytest.mark.parametrize(
    ("fields", "field", "words"),
    [
        ({"input": [{"type": "function_call", "name": "f"}]}, "input[0].call_id", "required"),
        ({"tool_choice": {"type": "file_search"}}, "tool_choice.type", "'file_search'"),
        ({"background": True}, "background", "not made in the background"),
        ({"conversation": "conv_1"}, "conversation", "not kept here"),
        ({"prompt": {"id": "p"}}, "prompt", "not kept here"),
        ({"input": []}, "input", "there must be an input"),
        ({"text": {"format": {"type": "xml"}}}, "text.format.type", "not one of"),
        ({"input": [{"type": "", **HELLO[0]}]}, "input[0].type", "items of type '' are not supported"),
        ({"input": [{"type": "local_shell_call_output", "id": "", "output": "x"}]}, "input[0].id", "1 to 512"),
        ({"input": [{"type": "local_shell_call_output", "id": "a\0", "output": "x"}]}, "input[0].id", "1 to 512"),
    ],
)  # fmt: skip
def test_responses_refuse_with_the_place_and_the_reason(fields: dict[str, Any], field: str, words: str) -> None:
    with pytest.raises(Malformed, match=words) as caught:
        responses(**fields)
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("fields", "field", "words"),
    [
        ({"input": [{"type": "item_reference", "id": "x"}]}, "input[0].type", "'item_reference' are not supported"),
        ({"input": [{"id": "x"}]}, "input[0]", "send the item itself"),
        ({"input": [{"type": "web_search_call", "id": "x"}]}, "input[0].type", "'web_search_call'"),
        (
            {"input": [{"role": "user", "content": [{"type": "input_file"}]}]},
            "input[0].content[0].type",
            "'input_file'",
        ),
        (
            {"input": [{"role": "user", "content": [{"type": "input_image", "file_id": "f"}]}]},
            "input[0].content[0].image_url",
            "files are not kept here",
        ),
        ({"tools": [{"type": "web_search"}]}, "tools[0].type", "'web_search' runs at the provider"),
        ({"tools": [{"type": "mcp", "server_label": "x"}]}, "tools[0].type", "'mcp' runs at the provider"),
    ],
)
def test_what_only_a_backend_of_this_api_can_be_told_is_named(fields: dict[str, Any], field: str, words: str) -> None:
    ((found, said),) = responses(**fields).native
    assert found == field and words in said


def test_responses_repeat_what_was_asked() -> None:
    tools = [{"type": "function", "name": "f", "parameters": {"type": "object"}, "strict": True}]
    asked = responses(
        tools=tools, tool_choice="required", temperature=0.5, instructions="i", metadata={"a": "b"}, store=False
    )
    body = json.loads(
        Responses().encode(asked, Completion(message=assistant("x")), Stamp(id="1", created=2, model="m"))
    )
    repeated = {
        name: body[name] for name in ("tools", "tool_choice", "temperature", "instructions", "metadata", "store")
    }
    assert repeated == {
        "tools": tools,
        "tool_choice": "required",
        "temperature": 0.5,
        "instructions": "i",
        "metadata": {"a": "b"},
        "store": False,
    }
    assert (body["id"], body["created_at"], body["object"], body["previous_response_id"]) == (
        "resp_1",
        2,
        "response",
        None,
    )


def test_responses_functions_in_a_namespace_have_one_name_here_and_two_there() -> None:
    inner = [{"type": "function", "name": name, "parameters": {"type": "object"}} for name in ("add", "total")]
    space = {"type": "namespace", "name": "mcp__sums", "description": "sums", "tools": inner}
    called = {"type": "function_call", "call_id": "c", "namespace": "mcp__sums", "name": "add", "arguments": "{}"}
    asked = responses(input=[*HELLO, called], tools=[space])
    assert [tool.name for tool in asked.tools] == ["mcp__sums__add", "mcp__sums__total"] and not asked.native
    assert asked.messages[-1].tool_calls[0].name == "mcp__sums__add"
    said = Completion(message=assistant("", ToolCall(id="d", name="mcp__sums__total")), finish_reason="tool_calls")
    (item,) = output_of(asked, said, Stamp(id="r", created=0, model="m"))
    assert (item["namespace"], item["name"]) == ("mcp__sums", "total")
    # a backend of the same API is told as it was written, and once
    request = Request(messages=asked.messages, tools=asked.tools, dialect="responses")
    body = json.loads(Bodies(Endpoint(url="http://127.0.0.1:9/v1", model="m")).write(request))
    assert body["tools"] == [space] and body["input"][-1] == called
    foreign = {**space, "tools": [{"type": "web_search"}]}
    assert responses(tools=[foreign]).native[0][0] == "tools[0].type"

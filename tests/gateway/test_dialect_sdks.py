"""The official SDKs read what the dialects write, and what they send back is the turn that was recorded."""

from __future__ import annotations

import anthropic
import httpx2
import openai
import pytest
from dialect_door import ALL, BARE, BROKEN, CALL, LONG, THOUGHT, WORDS, Door, reply

from silva.models.anthropic.marks import SignedDelta, redacted
from silva.models.gateway.dialects import Anthropic, Chat, Responses
from silva.models.gateway.dialects.dialect import Dialect
from silva.models.model import Completion, Delta
from silva.tree import TextPart, ThinkingPart, Tokens, ToolCall

TOOL = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
CHAT_TOOLS = [{"type": "function", "function": {"name": "weather", "parameters": TOOL}}]
HELLO = [{"role": "user", "content": "hello"}]


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("streamed", [False, True])
def test_chat_replies_are_read_and_come_back(name: str, streamed: bool) -> None:
    sent = ALL[name]
    door = Door(Chat(), sent, WORDS)
    client = door.openai()
    if streamed:
        with client.chat.completions.stream(
            model="m", messages=HELLO, tools=CHAT_TOOLS, stream_options={"include_usage": True}
        ) as stream:
            for _ in stream:
                pass
            got = stream.current_completion_snapshot if sent is LONG else stream.get_final_completion()
    else:
        got = client.chat.completions.create(model="m", messages=HELLO, tools=CHAT_TOOLS)
    choice = got.choices[0]
    assert (choice.message.content or "") == sent.message.text
    assert [(c.id, c.function.name, c.function.arguments) for c in choice.message.tool_calls or ()] == [
        (c.id, c.name, c.arguments) for c in sent.message.tool_calls
    ]
    assert choice.finish_reason == sent.finish_reason
    assert got.id == "chatcmpl-a1" and got.model == "m" and got.created == 1700000000
    assert got.usage is not None
    assert (got.usage.prompt_tokens, got.usage.completion_tokens, got.usage.total_tokens) == (50, 7, 57)
    assert got.usage.prompt_tokens_details and got.usage.prompt_tokens_details.cached_tokens == 20
    if sent is THOUGHT:
        assert choice.message.reasoning_content == "Let me see."  # type: ignore[attr-defined]
    client.chat.completions.create(model="m", messages=[*HELLO, choice.message, *HELLO], tools=CHAT_TOOLS)
    door.same_turn(sent)


def test_chat_ids_and_logprobs_come_only_when_asked_for() -> None:
    tokens = Tokens(ids=(5, 6, 7), sampled=3, logprobs=(-0.5, -1e-05, float("-inf")))
    exact = reply(TextPart(text="abc"), tokens=tokens, prompt_ids=(1, 2), logprobs=tokens.logprobs)
    door = Door(Chat(), exact, exact, exact)
    client = door.openai()
    plain = client.chat.completions.create(model="m", messages=HELLO)
    assert plain.choices[0].logprobs is None
    assert "token_ids" not in (plain.choices[0].model_extra or {})
    assert "prompt_token_ids" not in (plain.model_extra or {})
    extra = {"return_token_ids": True}
    full = client.chat.completions.create(model="m", messages=HELLO, logprobs=True, extra_body=extra)
    assert full.model_extra and full.model_extra["prompt_token_ids"] == [1, 2]
    choice = full.choices[0]
    assert choice.model_extra and choice.model_extra["token_ids"] == [5, 6, 7]
    assert choice.logprobs and choice.logprobs.content
    assert [entry.logprob for entry in choice.logprobs.content] == [-0.5, -1e-05, -9999.0]
    chunks = list(
        client.chat.completions.create(model="m", messages=HELLO, stream=True, logprobs=True, extra_body=extra)
    )
    ids = [i for chunk in chunks for c in chunk.choices for i in (c.model_extra or {}).get("token_ids") or ()]
    assert ids == [5, 6, 7]
    assert [c.model_extra["prompt_token_ids"] for c in chunks if (c.model_extra or {}).get("prompt_token_ids")] == [
        [1, 2]
    ]
    assert all(chunk.usage is None for chunk in chunks)


def test_chat_legacy_functions_are_answered_as_they_were_asked() -> None:
    door = Door(Chat(), BARE, BARE, WORDS)
    client = door.openai()
    functions = [{"name": "weather", "parameters": TOOL}]
    got = client.chat.completions.create(model="m", messages=HELLO, functions=functions, function_call="auto")
    call = got.choices[0].message.function_call
    assert call and (call.name, call.arguments) == ("weather", CALL.arguments)
    assert got.choices[0].finish_reason == "function_call"
    streamed = list(client.chat.completions.create(model="m", messages=HELLO, functions=functions, stream=True))
    assert [c.choices[0].delta.function_call.name for c in streamed if c.choices[0].delta.function_call] == ["weather"]
    result = {"role": "function", "name": "weather", "content": "sunny"}
    client.chat.completions.create(model="m", messages=[*HELLO, got.choices[0].message, result], functions=functions)
    door.same_turn(BARE)
    asked = door.asked[-1]
    assert asked.messages[2].tool_call_id == asked.messages[1].tool_calls[0].id


RESPONSE_TOOLS = [{"type": "function", "name": "weather", "parameters": TOOL, "strict": False}]


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("streamed", [False, True])
def test_responses_are_read_and_come_back(name: str, streamed: bool) -> None:
    sent = ALL[name]
    door = Door(Responses(), sent, WORDS)
    client = door.openai()
    if streamed:
        seen: list[int] = []
        with client.responses.stream(model="m", input="hello", tools=RESPONSE_TOOLS) as stream:
            last = None
            for event in stream:
                seen.append(event.sequence_number)
                last = event
            assert last is not None
            assert last.type == ("response.incomplete" if sent is LONG else "response.completed")
            got = last.response
        assert seen == sorted(seen)
    else:
        got = client.responses.create(model="m", input="hello", tools=RESPONSE_TOOLS)
    assert got.output_text == sent.message.text
    calls = [(i.call_id, i.name, i.arguments) for i in got.output if i.type == "function_call"]
    assert calls == [(c.id, c.name, c.arguments) for c in sent.message.tool_calls]
    assert got.status == ("incomplete" if sent is LONG else "completed")
    assert (got.incomplete_details and got.incomplete_details.reason) == ("max_output_tokens" if sent is LONG else None)
    assert got.usage and (got.usage.input_tokens, got.usage.output_tokens, got.usage.total_tokens) == (50, 7, 57)
    assert got.usage.input_tokens_details.cached_tokens == 20
    if sent is THOUGHT:
        thought = got.output[0]
        assert thought.type == "reasoning" and thought.content and thought.content[0].text == "Let me see."
    client.responses.create(model="m", input=[*HELLO, *got.output, *HELLO], tools=RESPONSE_TOOLS)
    door.same_turn(sent)
    back = next(message for message in door.asked[-1].messages if message.role == "assistant")
    assert back.thinking == sent.message.thinking


def test_responses_stream_events_stand_in_the_documented_order() -> None:
    door = Door(Responses(), reply(ThinkingPart(text="hm"), TextPart(text="yes"), calls=(CALL,)))
    stream = door.openai().responses.create(model="m", input="hello", tools=RESPONSE_TOOLS, stream=True)
    events = list(stream)
    assert [event.type.removeprefix("response.") for event in events] == [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "reasoning_text.delta",
        "reasoning_text.done",
        "content_part.done",
        "output_item.done",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "output_item.added",
        "function_call_arguments.delta",
        "function_call_arguments.done",
        "output_item.done",
        "completed",
    ]
    assert [event.sequence_number for event in events] == list(range(len(events)))


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("arguments", ['{"input": "*** Begin"}', "*** Begin", '{"cmd": 1.0}', ""])
def test_custom_tools_are_called_with_text_and_come_back(arguments: str, streamed: bool) -> None:
    sent = reply(calls=(ToolCall(id="c1", name="apply_patch", arguments=arguments),))
    door = Door(Responses(), sent, WORDS)
    client = door.openai()
    grammar = {"type": "grammar", "syntax": "lark", "definition": "start: LINE"}
    tools = [{"type": "custom", "name": "apply_patch", "description": "Patches.", "format": grammar}]
    if streamed:
        with client.responses.stream(model="m", input="hello", tools=tools) as stream:
            got = stream.get_final_response()
    else:
        got = client.responses.create(model="m", input="hello", tools=tools)
    item = got.output[0]
    assert item.type == "custom_tool_call"
    assert item.input == ("*** Begin" if "Begin" in arguments else arguments)
    offered = door.asked[0].tools[0]
    assert offered.parameters["required"] == ["input"] and "lark grammar" in offered.description
    result = {"type": "custom_tool_call_output", "call_id": "c1", "output": "done"}
    client.responses.create(model="m", input=[*HELLO, *got.output, result], tools=tools)
    door.same_turn(sent)
    assert door.asked[-1].messages[-1].tool_call_id == "c1"


def test_a_local_shell_is_called_as_such_and_comes_back() -> None:
    sent = reply(
        calls=(
            ToolCall(id="c1", name="local_shell", arguments='{"command": ["ls", "-l"], "timeout_ms": 5}'),
            ToolCall(id="c2", name="local_shell", arguments='{"cmd": "ls"}'),
        )
    )
    door = Door(Responses(), sent, WORDS)
    client = door.openai()
    got = client.responses.create(model="m", input="hello", tools=[{"type": "local_shell"}])
    first, second = got.output
    assert first.type == "local_shell_call" and first.action.command == ["ls", "-l"] and first.action.timeout_ms == 5
    assert second.type == "function_call" and second.arguments == '{"cmd": "ls"}'
    client.responses.create(model="m", input=[*HELLO, *got.output], tools=[{"type": "local_shell"}])
    door.same_turn(sent)


ANTHROPIC_TOOLS = [{"name": "weather", "input_schema": TOOL}]
STOPS = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use"}


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("streamed", [False, True])
def test_anthropic_messages_are_read_and_come_back(name: str, streamed: bool) -> None:
    sent = ALL[name]
    door = Door(Anthropic(), sent, WORDS)
    client = door.anthropic()
    ask = {"model": "m", "max_tokens": 100, "tools": ANTHROPIC_TOOLS}
    if streamed:
        with client.messages.stream(messages=HELLO, **ask) as stream:
            assert "".join(stream.text_stream) == sent.message.text
            got = stream.get_final_message()
    else:
        got = client.messages.create(messages=HELLO, **ask)
    assert "\n".join(block.text for block in got.content if block.type == "text") == sent.message.text
    calls = [block for block in got.content if block.type == "tool_use"]
    assert [(c.id, c.name) for c in calls] == [(c.id, c.name) for c in sent.message.tool_calls]
    expected = [{"_raw": c.arguments} if sent is BROKEN else c.parsed() for c in sent.message.tool_calls]
    assert [c.input for c in calls] == expected
    assert got.stop_reason == STOPS[sent.finish_reason]
    assert (got.usage.input_tokens, got.usage.cache_read_input_tokens, got.usage.output_tokens) == (30, 20, 7)
    client.messages.create(messages=[*HELLO, {"role": "assistant", "content": got.content}, *HELLO], **ask)
    door.same_turn(sent)
    back = next(message for message in door.asked[-1].messages if message.role == "assistant")
    assert back.thinking == sent.message.thinking


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("signed", [False, True])
def test_anthropic_thinking_keeps_its_signatures(streamed: bool, signed: bool) -> None:
    parts = (
        ThinkingPart(text="First.", signature="c2ln"),
        redacted("c2VjcmV0"),
        TextPart(text="Then"),
        ThinkingPart(text="", signature="b21pdHRlZA=="),
        TextPart(text="now"),
    )
    if not signed:  # a backend that tells the signature at the end alone
        parts = (ThinkingPart(text="First.", signature="c2ln"), TextPart(text="Then"))
    sent = reply(*parts, calls=(CALL,))

    def deltas(completion: Completion) -> list[Delta]:
        if not signed:
            return []
        return [
            Delta(thinking="First."),
            SignedDelta(signature="c2ln"),
            SignedDelta(signature="redacted:c2VjcmV0"),
            Delta(text="Then"),
            SignedDelta(signature="b21pdHRlZA=="),
            Delta(text="\nnow"),
        ]

    door = Door(Anthropic(), sent, WORDS, deltas=deltas)
    client = door.anthropic()
    ask = {"model": "m", "max_tokens": 3000, "thinking": {"type": "enabled", "budget_tokens": 2000}}
    if streamed:
        with client.messages.stream(messages=HELLO, **ask) as stream:
            got = stream.get_final_message()
    else:
        got = client.messages.create(messages=HELLO, **ask)
    client.messages.create(messages=[*HELLO, {"role": "assistant", "content": got.content}], **ask)
    assert door.asked[-1].messages[-1].parts == parts
    door.same_turn(sent)


@pytest.mark.parametrize("streamed", [False, True])
def test_signatures_survive_the_responses_api(streamed: bool) -> None:
    parts = (ThinkingPart(text="First.", signature="c2ln"), redacted("c2VjcmV0"), TextPart(text="Then"))
    door = Door(Responses(), reply(*parts), WORDS)
    client = door.openai()
    if streamed:
        with client.responses.stream(model="m", input="hello") as stream:
            got = stream.get_final_response()
    else:
        got = client.responses.create(model="m", input="hello")
    client.responses.create(model="m", input=[*HELLO, *got.output])
    assert door.asked[-1].messages[-1].parts == parts


@pytest.mark.parametrize("dialect", [Chat(), Responses(), Anthropic()], ids=lambda d: d.name)
def test_a_stream_that_breaks_off_raises_in_the_sdk(dialect: Dialect) -> None:
    door = Door(dialect, WORDS)
    door.breaks = True
    error = anthropic.APIStatusError if dialect.name == "anthropic" else openai.APIError
    with pytest.raises(error, match="too much"):
        if dialect.name == "chat":
            list(door.openai().chat.completions.create(model="m", messages=HELLO, stream=True))
        elif dialect.name == "responses":
            list(door.openai().responses.create(model="m", input="hello", stream=True))
        else:
            list(door.anthropic().messages.create(model="m", max_tokens=5, messages=HELLO, stream=True))


@pytest.mark.parametrize(
    ("status", "kind", "of_openai", "of_anthropic"),
    [
        (400, "malformed", openai.BadRequestError, anthropic.BadRequestError),
        (401, "auth", openai.AuthenticationError, anthropic.AuthenticationError),
        (403, "forbidden", openai.PermissionDeniedError, anthropic.PermissionDeniedError),
        (404, "not_found", openai.NotFoundError, anthropic.NotFoundError),
        (429, "rate_limit", openai.RateLimitError, anthropic.RateLimitError),
        (502, "upstream", openai.InternalServerError, anthropic.InternalServerError),
    ],
)
def test_errors_are_the_sdks_own(status, kind, of_openai, of_anthropic) -> None:
    def refuse(dialect: Dialect) -> httpx2.Client:
        def answer(request: httpx2.Request) -> httpx2.Response:
            return httpx2.Response(status, content=dialect.error(status, kind, "no", "messages[1].role"))

        return httpx2.Client(transport=httpx2.MockTransport(answer))

    client = openai.OpenAI(base_url="http://g/v1", api_key="k", http_client=refuse(Chat()), max_retries=0)
    with pytest.raises(of_openai) as told:
        client.chat.completions.create(model="m", messages=HELLO)
    assert told.value.param == "messages[1].role" and told.value.type
    client = openai.OpenAI(base_url="http://g/v1", api_key="k", http_client=refuse(Responses()), max_retries=0)
    with pytest.raises(of_openai):
        client.responses.create(model="m", input="x")
    other = anthropic.Anthropic(base_url="http://g", api_key="k", http_client=refuse(Anthropic()), max_retries=0)
    with pytest.raises(of_anthropic, match=r"messages\[1\].role: no"):
        other.messages.create(model="m", max_tokens=1, messages=HELLO)


def test_tokens_are_counted_through_the_sdk() -> None:
    dialect = Anthropic()

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked = dialect.decode_count(request.read())
        return httpx2.Response(200, json={"input_tokens": len(asked.messages)})

    http = httpx2.Client(transport=httpx2.MockTransport(answer))
    client = anthropic.Anthropic(base_url="http://g", api_key="k", http_client=http)
    assert client.messages.count_tokens(model="m", system="be brief", messages=HELLO).input_tokens == 2

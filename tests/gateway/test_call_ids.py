"""Ids of calls that others minted: unique within a conversation, such as every API takes, their results with them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_anthropic_client import body_of

from silva.models.call_ids import RENAMED, distinct, told_apart
from silva.tree import Author, Message, ToolCall, assistant, tool_result, user

ACCEPTED = re.compile(r"[a-zA-Z0-9_-]{1,40}").fullmatch
ids = st.sampled_from(["look:0", "look.0", "look_0", "", "é", "call_0", "call_1", "x" * 41, "x" * 40]) | st.text(
    max_size=3
)
turns = st.lists(st.lists(ids, max_size=3), max_size=5)


def conversation(turns: list[list[str]]) -> list[Message]:
    """Each turn's calls, then their results; every call and its result say which they are."""
    said = [user("go")]
    for place, names in enumerate(turns):
        said.append(
            assistant("", *(ToolCall(id=name, name=f"{place}.{n}", arguments="{}") for n, name in enumerate(names)))
        )
        said += [tool_result(name, f"{place}.{n}") for n, name in enumerate(names)]
    return said


@given(turns, st.integers(min_value=0, max_value=20))
def test_every_call_has_an_id_of_its_own_and_keeps_its_result(turns: list[list[str]], cut: int) -> None:
    said = conversation(turns)
    told = told_apart(said)
    named = {call.id: call.name for message in told for call in message.tool_calls}
    assert len(named) == sum(map(len, turns)) and all(map(ACCEPTED, named))
    assert [named[m.tool_call_id or ""] for m in told if m.role == "tool"] == [m.text for m in told if m.role == "tool"]
    given = [call.id for message in said for call in message.tool_calls]
    if len(set(given)) == len(given) and all(map(ACCEPTED, given)):
        assert told == said, "what is unique and accepted stays"
    assert told_apart(said[:cut]) == told[:cut], "a conversation that grows keeps its beginning"
    assert told_apart(told) == told
    written = body_of(*said)["messages"]
    blocks = [block for message in written if message["role"] == "assistant" for block in message["content"]]
    assert [block["id"] for block in blocks] == list(named)


@given(st.lists(ids, max_size=4), st.sets(ids), st.integers(min_value=0, max_value=9))
def test_the_calls_of_a_reply_differ_from_all_before(names: list[str], before: set[str], place: int) -> None:
    calls = [ToolCall(id=name, name="f", arguments="{}") for name in names]
    made = [call.id for call in distinct(calls, set(before), place)]
    assert len({*made, *before}) == len(made) + len(before) and all(map(ACCEPTED, made))


@pytest.mark.parametrize("streaming", [False, True])
def test_a_reply_is_told_and_kept_under_ids_of_its_own(
    serve: Callable[..., Any], scripted: Callable[..., Any], streaming: bool
) -> None:
    """As told in one API and asked in another; the backend gets back what the client was told."""
    calls = [{"id": "look:0", "name": "look"}, {"id": "look:0", "name": "look"}]
    serving = serve(scripted(otherwise={"tool_calls": calls}))
    token = serving.open_run()
    tools = [{"name": "look", "input_schema": {"type": "object"}}]
    said: list[dict[str, Any]] = [{"role": "user", "content": "go"}]
    for _ in range(2):
        asked = {"model": "scripted", "max_tokens": 9, "messages": said, "tools": tools, "stream": streaming}
        answer = serving.post("/r/run/main/v1/messages", token, asked)
        told = re.findall(r'"type": ?"tool_use", ?"id": ?"([^"]*)"', answer.text)
        assert len(told) == 2, answer.text
        used = [{"type": "tool_use", "id": name, "name": "look", "input": {}} for name in told]
        results = [{"type": "tool_result", "tool_use_id": name, "content": "seen"} for name in told]
        said += [{"role": "assistant", "content": used}, {"role": "user", "content": results}]
    nodes = serving.nodes()
    replies = [node for node in nodes if node.author is Author.POLICY]
    kept = [call.id for node in replies for call in node.message.tool_calls]
    sent = [block["id"] for message in said if message["role"] == "assistant" for block in message["content"]]
    assert kept == sent and len(set(kept)) == 4 and all(map(ACCEPTED, kept))
    assert [set(node.attributes[RENAMED].values()) for node in replies] == [{"look:0"}, {"look:0"}]
    assert len([node for node in nodes if node.message.role == "assistant"]) == 2, "one walk"

"""LangSmith: chat completions, completions and responses are read; a model run that gave no reply is counted."""

from __future__ import annotations

from typing import Any

import pytest
from test_trace_formats import one, values, walk_of

from silva.tree import Boundary, Status, tools
from silva.tree.formats import FormatError


def test_langsmith_error_and_feedback_are_told() -> None:
    runs = values("langsmith-openai.jsonl")
    root = {**runs[0], "error": "ValueError('x')\n\nTraceback", "feedback_stats": {"helpful": {"n": 1, "avg": 1.0}}}
    (trajectory,) = one("langsmith", root, *runs[1:]).trajectories
    assert trajectory.outcome.status is Status.FAILED and trajectory.outcome.failure is not None
    assert trajectory.outcome.failure.message == "ValueError('x')"
    assert trajectory.attributes["langsmith"]["feedback"] == {"helpful": {"n": 1, "avg": 1.0}}


def test_langsmith_trace_without_a_model_call_is_read_from_its_root() -> None:
    root = {
        "id": "1", "trace_id": "1", "run_type": "chain", "name": "agent", "start_time": "2026-01-01T00:00:00",
        "inputs": {"messages": [{"type": "human", "content": "q"}]},
        "outputs": {"messages": [{"type": "human", "content": "q"}, {"type": "ai", "content": "a"}]},
    }  # fmt: skip
    assert [node.message.text for node in walk_of(one("langsmith", root))] == ["q", "a"]


def smith(number: int, inputs: Any, outputs: Any, **more: Any) -> dict[str, Any]:
    start = f"2026-01-01T00:00:{number:02}"
    return {"id": f"run-{number}", "trace_id": "t", "run_type": "llm", "start_time": start, "dotted_order": start,
            "parent_run_id": "root", "inputs": inputs, "outputs": outputs, **more}  # fmt: skip


WEATHER = {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": '{"city": "Paris"}', "id": "fc_1"}
SUNNY = {"type": "function_call_output", "call_id": "c1", "output": "sunny"}
ASKED = {"role": "user", "content": "Weather?"}
THOUGHT = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "look it up"}]}


def reply(words: str) -> dict[str, Any]:
    content = [{"type": "output_text", "text": words, "annotations": []}]
    return {"type": "message", "role": "assistant", "id": "m", "status": "completed", "content": content}


@pytest.mark.parametrize("linked", [False, True], ids=["whole input", "previous_response_id"])
def test_langsmith_responses_are_read_with_instructions_calls_and_thoughts(linked: bool) -> None:
    instructed = {"instructions": "Be brief.", "model": "m"}
    usage = {"input_tokens": 9, "output_tokens": 2, "input_tokens_details": {"cached_tokens": 4}}
    tools_ = [{"type": "function", "name": "weather", "parameters": {}}, {"type": "web_search"}]
    if linked:
        later = {**instructed, "input": [SUNNY], "previous_response_id": "resp_1"}
    else:
        later = {**instructed, "input": [ASKED, WEATHER, SUNNY]}
    bundle = one(
        "langsmith",
        smith(1, {**instructed, "input": [ASKED], "tools": tools_},
              {"id": "resp_1", "output": [THOUGHT, reply("I look."), WEATHER], "usage": usage}),
        smith(2, later, {"id": "resp_2", "output": [reply("Sunny.")]}),
    ) if linked else one(
        "langsmith",
        smith(1, {**instructed, "input": [ASKED], "tools": tools_}, {"output": [THOUGHT, WEATHER], "usage": usage}),
        smith(2, later, {"output": [reply("Sunny.")]}),
    )  # fmt: skip
    walk = walk_of(bundle)
    assert [node.message.role for node in walk] == ["system", "user", "assistant", "tool", "assistant"]
    assert [walk[0].message.text, walk[1].message.text] == ["Be brief.", "Weather?"]
    (made,) = walk[2].message.tool_calls
    assert (made.id, made.parsed(), walk[2].message.thinking) == ("c1", {"city": "Paris"}, "look it up")
    assert (walk[3].message.tool_call_id, walk[3].message.text) == ("c1", "sunny")
    assert walk[4].message.text == "Sunny." and (walk[2].usage.cached_tokens, walk[2].usage.prompt_tokens) == (4, 9)
    assert [tool.name for tool in tools(walk)] == ["weather", "web_search"]


def test_langsmith_responses_input_of_calls_alone_is_read() -> None:
    walk = walk_of(one("langsmith", smith(1, {"input": [WEATHER, SUNNY]}, {"output": [reply("Sunny.")]})))
    assert [node.message.role for node in walk] == ["assistant", "tool", "assistant"]


def test_langsmith_responses_item_of_another_kind_is_named_and_kept() -> None:
    search = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
    walk = walk_of(one("langsmith", smith(1, {"input": "q"}, {"output": [search, reply("a")]})))
    assert walk[1].message.text == "[web_search_call]\na"
    assert walk[1].attributes["langsmith"]["message"]["blocks"] == [search]


def test_langsmith_completions_are_read() -> None:
    walk = walk_of(one("langsmith", smith(1, {"prompt": "Say hello."}, {"choices": [{"text": "hello"}]})))
    assert [node.message.text for node in walk] == ["Say hello.", "hello"]


def test_langsmith_run_without_a_reply_is_counted() -> None:
    good = smith(1, {"input": "q"}, {"output": [reply("a")]})
    for outputs in (None, {}, {"choices": []}, {"odd": "shape"}):
        kept = one("langsmith", good, smith(2, {"input": "q"}, outputs)).trajectories[0].attributes["langsmith"]
        assert kept["without_reply"] == 1
    assert "without_reply" not in one("langsmith", good).trajectories[0].attributes["langsmith"]


def test_langsmith_run_listed_twice_is_one() -> None:
    good = smith(1, {"input": "q"}, {"output": [reply("a")]})
    assert one("langsmith", good, good) == one("langsmith", good)


def test_langsmith_failing_last_call_is_a_failed_outcome() -> None:
    good = smith(1, {"input": "q"}, {"output": [reply("a")]})
    (trajectory,) = one("langsmith", good, smith(2, {"input": "r"}, None, error="TimeoutError()")).trajectories[1:]
    assert trajectory.outcome.failure is not None and trajectory.outcome.failure.boundary is Boundary.MODEL


def test_half_a_character_in_a_tool_is_refused_with_its_place() -> None:
    asked = smith(1, {"input": "q", "tools": [{"type": "function", "function": "\ud800"}]}, {"output": [reply("a")]})
    with pytest.raises(FormatError, match=r"tools\[0\].*holds what a record cannot"):
        one("langsmith", asked)

"""The logs of other agents and observers: messages, calls, answers, costs and endings come over; else it is told."""

from __future__ import annotations

import json
from typing import Any

import pytest

from silva.errors import UsageError
from silva.tree import Author, Boundary, Node, Status
from silva.tree.formats import Bundle, FormatError, detect, find, salvage

Value = dict[str, Any] | list[Any]
CALL = {"id": "c1", "type": "function", "function": {"name": "run", "arguments": '{"command": "ls"}'}}


def grown(name: str, *values: Value) -> Bundle:
    data = "\n".join(json.dumps(value) for value in values).encode()
    assert detect("file.json", data) == name
    (bundle,) = salvage(find(name), data, "file.json", "r").bundles
    return bundle


def walk(bundle: Bundle) -> tuple[Node, ...]:
    return bundle.walk(bundle.trajectories[0])


def shape(bundle: Bundle) -> list[tuple[str, str]]:
    return [(node.message.role, node.message.text) for node in walk(bundle)]


EXPECTED = [
    ("system", "Be good."),
    ("user", "List."),
    ("assistant", "I look."),
    ("tool", "a.txt"),
    ("assistant", "One."),
]


def test_mini_swe_agent() -> None:
    response = {"model": "m", "usage": {"prompt_tokens": 7, "completion_tokens": 2}}
    messages = [
        {"role": "system", "content": "Be good."},
        {"role": "user", "content": "List."},
        {
            "role": "assistant",
            "content": "I look.",
            "tool_calls": [CALL],
            "extra": {"response": response, "cost": 0.25},
        },
        {"role": "tool", "tool_call_id": "c1", "content": "a.txt", "extra": {"returncode": 0}},
        {"role": "assistant", "content": "One."},
        {"role": "exit", "content": "the patch", "extra": {"exit_status": "Submitted"}},
    ]
    info = {
        "exit_status": "Submitted",
        "submission": "the patch",
        "model_stats": {"instance_cost": 0.5, "api_calls": 2},
    }
    bundle = grown("swe-agent", {"messages": messages, "info": info, "trajectory_format": "mini-swe-agent-1.1"})
    assert shape(bundle)[:5] == EXPECTED
    (trajectory,) = bundle.trajectories
    assert (trajectory.agent, trajectory.usage.usd, trajectory.usage.prompt_tokens) == ("mini-swe-agent", 0.5, 7)
    assert trajectory.outcome.status is Status.COMPLETED
    assert trajectory.attributes["swe-agent"]["info"]["submission"] == "the patch"
    assert walk(bundle)[2].model == "m" and walk(bundle)[3].attributes["swe-agent"]["extra"] == {"returncode": 0}


@pytest.mark.parametrize(
    ("said", "status"), [("submitted (exit_cost)", "completed"), ("exit_cost", "truncated"), ("exit_error", "failed")]
)
def test_swe_agent(said: str, status: str) -> None:
    history = [
        {"role": "system", "content": "Be good.", "agent": "main"},
        {"role": "user", "content": "List.", "agent": "main"},
        {"role": "assistant", "content": "I look.", "action": "ls", "tool_calls": [CALL], "thought": "I look."},
        {"role": "tool", "content": [{"type": "text", "text": "a.txt"}], "tool_call_ids": ["c1"]},
        {"role": "assistant", "content": "One."},
    ]
    stats = {"instance_cost": 1.5, "tokens_sent": 100, "tokens_received": 9}
    bundle = grown(
        "swe-agent", {"trajectory": [], "history": history, "info": {"exit_status": said, "model_stats": stats}}
    )
    assert shape(bundle) == EXPECTED
    (trajectory,) = bundle.trajectories
    assert (trajectory.usage.prompt_tokens, trajectory.outcome.status) == (100, status)
    steps = [{"response": "I look.", "observation": "a.txt", "action": "ls"}]
    assert shape(grown("swe-agent", {"trajectory": steps, "info": {}})) == [("assistant", "I look."), ("user", "a.txt")]


def test_openhands_events_of_the_sdk() -> None:
    def event(kind: str, source: str, **more: Any) -> dict[str, Any]:
        return {"kind": kind, "source": source, "timestamp": "2026-05-01T10:00:00", "id": kind, **more}

    asked = {"role": "user", "content": [{"type": "text", "text": "List."}]}
    said = {"role": "assistant", "content": [{"type": "text", "text": "One."}]}
    act = {"tool_name": "terminal", "llm_response_id": "r1", "thought": [{"type": "text", "text": "I look."}]}
    history = [
        event("SystemPromptEvent", "agent", system_prompt={"type": "text", "text": "Be good."}),
        event("MessageEvent", "user", llm_message=asked),
        event("ConversationStateUpdateEvent", "environment"),
        event("ActionEvent", "agent", tool_call_id="c1", action={"command": "ls"}, **act),
        event("ActionEvent", "agent", tool_call_id="c2", action={"command": "pwd"}, **{**act, "thought": []}),
        event("ObservationEvent", "environment", tool_call_id="c1", observation={"content": "a.txt"}),
        event("MessageEvent", "agent", llm_message=said),
    ]
    metrics = {"accumulated_cost": 0.5, "accumulated_token_usage": {"prompt_tokens": 9, "completion_tokens": 1}}
    bundle = grown("openhands", {"instance_id": "i", "history": history, "metrics": metrics})
    assert shape(bundle) == EXPECTED
    assert [call.id for call in walk(bundle)[2].message.tool_calls] == ["c1", "c2"]
    assert walk(bundle)[1].author is Author.PERSON
    (trajectory,) = bundle.trajectories
    assert (trajectory.usage.usd, trajectory.usage.prompt_tokens) == (0.5, 9)
    assert trajectory.attributes["openhands"]["other_events"] == {"ConversationStateUpdateEvent": 1}


def test_openhands_events_before_the_sdk() -> None:
    meta = {"tool_call_id": "c1", "function_name": "execute_bash", "model_response": {"id": "r1"}}
    run = {"action": "run", "args": {"command": "ls", "thought": "I look."}, "tool_call_metadata": meta}
    events = [
        {"id": 0, "source": "agent", "action": "system", "args": {"content": "Be good."}},
        {"id": 1, "source": "user", "action": "message", "args": {"content": "List."}},
        {"id": 2, "source": "agent", **run},
        {"id": 3, "source": "agent", "observation": "run", "cause": 2, "content": "a.txt", "tool_call_metadata": meta},
        {"id": 4, "source": "environment", "observation": "agent_state_changed", "content": ""},
        {"id": 5, "source": "agent", "action": "message", "args": {"content": "One."}},
    ]
    bundle = grown("openhands", events)
    assert shape(bundle) == EXPECTED
    assert walk(bundle)[2].message.tool_calls[0].parsed() == {"command": "ls"}


def test_autogen() -> None:
    request = [{"id": "c1", "name": "run", "arguments": '{"command": "ls"}'}]
    executed = [{"call_id": "c1", "content": "a.txt", "is_error": False, "name": "run"}]
    usage = {"prompt_tokens": 5, "completion_tokens": 1}
    messages = [
        {"source": "user", "type": "TextMessage", "content": "List.", "models_usage": None},
        {"source": "a", "type": "ToolCallRequestEvent", "content": request, "models_usage": usage},
        {"source": "a", "type": "ToolCallExecutionEvent", "content": executed},
        {"source": "a", "type": "TextMessage", "content": "One.", "models_usage": usage},
    ]
    bundle = grown("autogen", {"messages": messages, "stop_reason": "done"})
    assert shape(bundle) == [("user", "List."), ("assistant", ""), ("tool", "a.txt"), ("assistant", "One.")]
    assert bundle.trajectories[0].usage.prompt_tokens == 10
    old = {"chat_history": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"}], "cost": {}}
    assert shape(grown("autogen", old)) == [("user", "Hi"), ("assistant", "Ho")]


def test_vercel_ui_messages_and_model_messages() -> None:
    tool = {
        "type": "tool-run",
        "toolCallId": "c1",
        "state": "output-available",
        "input": {"command": "ls"},
        "output": "a.txt",
    }
    parts = [{"type": "step-start"}, {"type": "text", "text": "I look."}, tool, {"type": "step-start"}]
    said = {"id": "2", "role": "assistant", "parts": [*parts, {"type": "text", "text": "One."}]}
    first = [{"id": "0", "role": "system", "parts": [{"type": "text", "text": "Be good."}]}]
    asked = {"id": "1", "role": "user", "parts": [{"type": "text", "text": "List."}]}
    assert shape(grown("vercel-ai", {"id": "chat", "messages": [*first, asked, said]})) == EXPECTED
    call = {"type": "tool-call", "toolCallId": "c1", "toolName": "run", "input": {"command": "ls"}}
    result = {
        "type": "tool-result",
        "toolCallId": "c1",
        "toolName": "run",
        "output": {"type": "text", "value": "a.txt"},
    }
    models = [
        {"role": "system", "content": "Be good."},
        {"role": "user", "content": [{"type": "text", "text": "List."}]},
        {"role": "assistant", "content": [{"type": "text", "text": "I look."}, call]},
        {"role": "tool", "content": [result]},
        {"role": "assistant", "content": [{"type": "text", "text": "One."}]},
    ]
    bundle = grown("vercel-ai", models)
    assert shape(bundle) == EXPECTED
    assert walk(bundle)[2].message.tool_calls[0].parsed() == {"command": "ls"}


def test_langgraph_states_of_a_thread_share_their_turns_and_a_fork_is_a_branch() -> None:
    human = {"type": "human", "content": "List.", "id": "1"}
    call = {"name": "run", "args": {"command": "ls"}, "id": "c1", "type": "tool_call"}
    usage = {"input_tokens": 5, "output_tokens": 1}
    ai = {"type": "ai", "content": "I look.", "tool_calls": [call], "id": "2", "usage_metadata": usage}
    tool = {"type": "tool", "content": "a.txt", "tool_call_id": "c1", "name": "run", "id": "3", "status": "success"}

    def state(second: int, *messages: dict[str, Any]) -> dict[str, Any]:
        config = {"configurable": {"thread_id": "t"}}
        at = f"2026-05-01T10:00:0{second}+00:00"
        return {"values": {"messages": list(messages)}, "config": config, "created_at": at, "next": []}

    end = {"type": "ai", "content": "One.", "id": "4"}
    other = {"type": "ai", "content": "Just one.", "id": "5"}
    states = [state(3, human, ai, tool, end), state(2, human, ai), state(1, human), state(4, human, ai, tool, other)]
    bundle = grown("langgraph", *states)
    assert shape(bundle) == [("user", "List."), ("assistant", "I look."), ("tool", "a.txt"), ("assistant", "One.")]
    assert len(bundle.nodes) == 5 and len(bundle.trajectories) == 2
    assert sum(each.usage.prompt_tokens for each in bundle.trajectories) == 5


def test_langfuse_generations_of_a_trace_fold_into_a_walk() -> None:
    asked = [{"role": "system", "content": "Be good."}, {"role": "user", "content": "List."}]
    looked = {"role": "assistant", "content": "I look.", "tool_calls": [CALL]}
    answer = {"role": "tool", "tool_call_id": "c1", "content": "a.txt"}

    def generation(at: int, sent: list[Any], said: Any, **more: Any) -> dict[str, Any]:
        named = {"id": str(at), "traceId": "t", "type": "GENERATION", "name": "chat", "model": "m"}
        times = {"startTime": f"2026-05-01T10:00:0{at}Z", "endTime": f"2026-05-01T10:00:0{at + 1}Z"}
        return {**named, **times, "input": sent, "output": said, "usageDetails": {"input": 5, "output": 1}, **more}

    calls = [generation(1, asked, looked), generation(3, [*asked, looked, answer], "One.", totalCost=0.25)]
    span = {"id": "s", "traceId": "t", "type": "SPAN", "name": "agent", "startTime": "2026-05-01T10:00:00Z"}
    trace = {"id": "t", "name": "agent", "observations": [*calls, span], "scores": [{"name": "good", "value": 0.5}]}
    bundle = grown("langfuse", trace)
    assert shape(bundle) == EXPECTED
    (trajectory,) = bundle.trajectories
    assert (trajectory.usage.usd, trajectory.usage.prompt_tokens, trajectory.usage.model_seconds) == (0.25, 10, 2.0)
    assert trajectory.outcome.metrics == {"good": 0.5}
    assert shape(grown("langfuse", *calls)) == EXPECTED
    broken = generation(1, asked, None, level="ERROR", statusMessage="overloaded")
    failure = grown("langfuse", broken).trajectories[0].outcome.failure
    assert failure is not None and (failure.boundary, failure.message) == (Boundary.MODEL, "overloaded")


def test_what_is_no_log_that_silva_reads_is_told_as_that() -> None:
    with pytest.raises(UsageError, match="format not recognised; say --format"):
        detect("x.json", b'{"steps": [{"thing": 1}]}')
    with pytest.raises(FormatError, match="history: required field is missing"):
        salvage(find("openhands"), b'{"x": 1}', "x.json", "r")

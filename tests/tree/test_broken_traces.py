"""Traces that broke: a failing root or last model call is a failed outcome with its message, one tried again is not."""

from __future__ import annotations

from typing import Any

import pytest
from test_trace_formats import chat, one, pair, spans, text

from silva.tree import Boundary, Status
from silva.tree.formats import Bundle


def broken_traces(name: str, *, root: str = "", first: str = "", last: str = "", bare: bool = False) -> Bundle:
    """A root span, a model call and another that continues it, each with the error it ended in."""
    asked, answered = [text("user", "q")], [text("user", "q"), text("assistant", "a"), text("user", "r")]

    def status(error: str) -> dict[str, Any]:
        return {"status": {"code": 2, "message": error}} if error else {}

    if name == "otel":
        outer = {"traceId": "ab" * 16, "spanId": "f" * 16, "name": "app", "startTimeUnixNano": "0", **status(root)}
        calls = [chat(1, asked, text("assistant", "a")), chat(2, answered, text("assistant", "b"))]
        for span, error in zip(calls, (first, last), strict=True):
            span |= {"parentSpanId": "f" * 16, **status(error)}
            dropped = ("gen_ai.output.messages", "gen_ai.input.messages") if bare else ("gen_ai.output.messages",)
            if error:
                span["attributes"] = [p for p in span["attributes"] if p["key"] not in dropped]
        return one("otel", spans(outer, *calls))

    def row(number: int, kind: str, error: str, **attributes: Any) -> dict[str, Any]:
        code = {"status_code": "ERROR", "status_message": error} if error else {"status_code": "OK"}
        context = {"trace_id": "t", "span_id": f"s{number}"}
        start = f"2026-01-01T00:00:0{number}"
        return {"context": context, "span_kind": kind, "parent_id": "s0" if number else None, "start_time": start,
                "end_time": start, **code, "attributes": attributes}  # fmt: skip

    def words(*said: tuple[str, str]) -> list[Any]:
        return [{"message.role": role, "message.content": content} for role, content in said]

    asked_, again_ = words(("user", "q")), words(("user", "q"), ("assistant", "a"), ("user", "r"))
    found = [row(0, "AGENT", root)]
    for number, sent, said, error in ((1, asked_, "a", first), (2, again_, "b", last)):
        told = {} if error and bare else {"llm.input_messages": sent}
        answer = {} if error else {"llm.output_messages": words(("assistant", said))}
        found.append(row(number, "LLM", error, **told, **answer))
    return one("phoenix", *found)


@pytest.mark.parametrize("name", ["otel", "phoenix"])
def test_failing_root_or_last_call_is_a_failed_outcome(name: str) -> None:
    for bare in (False, True):
        for where, boundary in (("root", Boundary.AGENT), ("last", Boundary.MODEL)):
            (trajectory,) = broken_traces(name, bare=bare, **{where: "no more money\nat line 3"}).trajectories
            failure = trajectory.outcome.failure
            assert trajectory.outcome.status is Status.FAILED and failure is not None
            assert (failure.boundary, failure.message) == (boundary, "no more money")
    assert broken_traces(name).trajectories[0].outcome.status is Status.COMPLETED


@pytest.mark.parametrize("name", ["otel", "phoenix"])
def test_failing_call_that_was_tried_again_is_none(name: str) -> None:
    for trajectory in broken_traces(name, first="timeout").trajectories:
        assert trajectory.outcome.status is Status.COMPLETED


def test_failed_span_says_what_was_raised_where_its_status_does_not() -> None:
    span = chat(1, [text("user", "q")], text("assistant", "a"))
    event = {"name": "exception", "attributes": [pair("exception.message", "out of memory")]}
    (trajectory,) = one("otel", spans({**span, "status": {"code": 2}, "events": [event]})).trajectories
    assert trajectory.outcome.failure is not None and trajectory.outcome.failure.message == "out of memory"


def test_trace_of_one_failed_call_began_when_its_spans_did() -> None:
    call = chat(1, [text("user", "q")], text("assistant", "a"))
    call["attributes"] = [pair for pair in call["attributes"] if pair["key"] != "gen_ai.output.messages"]
    call |= {"startTimeUnixNano": "7000000000", "endTimeUnixNano": "9000000000"}
    item = {"object": "trace.span", "id": "s", "trace_id": "t", "started_at": "1970-01-01T00:00:07+00:00",
            "ended_at": "1970-01-01T00:00:09+00:00", "error": {"message": "no connection"},
            "span_data": {"type": "generation", "input": [{"role": "user", "content": "q"}], "model": "m"}}  # fmt: skip
    for bundle in (one("otel", spans(call)), one("openai-agents", item)):
        (trajectory,) = bundle.trajectories
        assert (trajectory.started, trajectory.finished, trajectory.seconds) == (7.0, 9.0, 2.0)

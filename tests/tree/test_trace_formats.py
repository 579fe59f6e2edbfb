"""Traces of OpenTelemetry, LangSmith and Phoenix: calls that repeat their prompt fold back into one tree."""

from __future__ import annotations

import base64
import copy
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from grown import bundles
from hypothesis import given, settings
from hypothesis import strategies as st
from test_formats import SEARCH, again, walk_bundle

from silva.tree import (
    Boundary,
    Failure,
    Node,
    Outcome,
    Status,
    Tokens,
    Tree,
    assistant,
    call,
    system,
    tool_result,
    tools,
    user,
)
from silva.tree.formats import FORMATS, Bundle, FormatError, read, write

TOOLS = Path(__file__).parent / "golden" / "tools"
TRACES = {
    "otel.json": "otel",
    "otel-events.jsonl": "otel",
    "langsmith-openai.jsonl": "langsmith",
    "langsmith-langchain.jsonl": "langsmith",
    "phoenix-otlp.json": "phoenix",
    "phoenix-spans.jsonl": "phoenix",
}


def values(name: str) -> list[Any]:
    return [json.loads(line) for line in (TOOLS / name).read_text("utf-8").split("\n") if line]


def one(name: str, *given_: Any) -> Bundle:
    (bundle,) = read(name, [json.dumps(value) for value in given_], file="t.json", run="r")
    return bundle


def walk_of(bundle: Bundle) -> list[Node]:
    (trajectory,) = bundle.trajectories
    return list(bundle.walk(trajectory))


@pytest.mark.parametrize("file", TRACES)
def test_two_calls_fold_into_one_walk(file: str) -> None:
    walk = walk_of(one(TRACES[file], *values(file)))
    assert [node.message.role for node in walk] == ["system", "user", "assistant", "tool", "assistant"]
    assert [walk[0].message.text, walk[1].message.text] == ["Be brief.", "What is the weather in Paris?"]
    (made,) = walk[2].message.tool_calls
    assert made.parsed() == {"city": "Paris"} and walk[3].message.tool_call_id == made.id
    assert walk[3].message.text == "sunny" and walk[4].message.text == "It is sunny in Paris."
    assert [walk[2].finish_reason, walk[4].finish_reason] == ["tool_calls", "stop"]
    assert walk[2].usage.prompt_tokens > 0 and walk[4].usage.completion_tokens > 0
    assert walk[2].model == walk[4].model != "" and walk[2].started < walk[4].started


@pytest.mark.parametrize("file", ["langsmith-openai.jsonl", "phoenix-otlp.json", "phoenix-spans.jsonl"])
def test_tools_stand_on_the_first_node(file: str) -> None:
    walk = walk_of(one(TRACES[file], *values(file)))
    assert walk[0].tools is not None and tools(walk)[0].parameters["properties"] == {"city": {"type": "string"}}


@pytest.mark.parametrize("file", ["otel.json", "langsmith-langchain.jsonl", "phoenix-otlp.json"])
def test_run_of_the_tool_gives_the_answer_its_seconds(file: str) -> None:
    walk = walk_of(one(TRACES[file], *values(file)))
    assert walk[3].usage.env_seconds > 0 and walk[3].started > 0


def test_spans_that_are_no_calls_are_counted_and_the_rest_is_kept() -> None:
    otel = one("otel", *values("otel.json"))
    assert otel.trajectories[0].agent == "weather"
    assert walk_of(otel)[2].attributes["otel"]["gen_ai.response.id"] == "chatcmpl-silva"
    assert one("otel", *values("otel-events.jsonl")).trajectories[0].attributes["otel"]["other_spans"] == {"weather": 1}
    phoenix = one("phoenix", *values("phoenix-spans.jsonl"))
    assert phoenix.trajectories[0].attributes["phoenix"]["other_spans"] == {"AGENT": 1}
    assert walk_of(phoenix)[2].attributes["phoenix"]["llm"]["system"] == "openai"
    smith = one("langsmith", *values("langsmith-langchain.jsonl")).trajectories[0].attributes["langsmith"]
    assert smith["tags"] == ["golden"] and smith["metadata"] == {"suite": "weather"}
    assert smith["other_runs"] == {"chain": 1}


def chat(number: int, sent: list[Any], reply: Any, **attributes: Any) -> dict[str, Any]:
    said = {"gen_ai.operation.name": "chat", "gen_ai.input.messages": sent, "gen_ai.output.messages": [reply]}
    return {
        "traceId": "ab" * 16,
        "spanId": f"{number:016x}",
        "name": "chat",
        "startTimeUnixNano": str(number * 10**9),
        "endTimeUnixNano": str(number * 10**9 + 5),
        "attributes": [pair(key, value) for key, value in {**said, **attributes}.items()],
    }


def pair(key: str, value: Any) -> dict[str, Any]:
    if isinstance(value, list) and value and isinstance(value[0], int):
        return {"key": key, "value": {"arrayValue": {"values": [{"intValue": str(item)} for item in value]}}}
    return {"key": key, "value": {"stringValue": value if isinstance(value, str) else json.dumps(value)}}


def spans(*found: Any) -> dict[str, Any]:
    return {"resourceSpans": [{"scopeSpans": [{"spans": list(found)}]}]}


def text(role: str, words: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "content": words}]}


def test_call_with_another_history_is_a_branch() -> None:
    first = [text("user", "q")]
    second = [*first, text("assistant", "a"), text("user", "r")]
    other = [*first, text("assistant", "a"), text("user", "s")]
    found = spans(
        chat(3, other, text("assistant", "c")),
        chat(1, first, text("assistant", "a")),
        chat(2, second, text("assistant", "b")),
    )
    bundle = one("otel", found)
    assert [[n.message.text for n in bundle.walk(t)] for t in bundle.trajectories] == [
        ["q", "a", "r", "b"],
        ["q", "a", "s", "c"],
    ]
    assert len(bundle.nodes) == 6 and len(Tree(bundle.nodes).branches) == 1


def test_token_ids_of_spans_become_deltas_and_restarts_are_said() -> None:
    first = [text("user", "q")]
    second = [*first, text("assistant", "a"), text("user", "r")]
    third = [*second, text("assistant", "b"), text("user", "s")]
    found = spans(
        chat(1, first, text("assistant", "a"), prompt_token_ids=[1, 2], response_token_ids=[3]),
        chat(2, second, text("assistant", "b"), prompt_token_ids=[1, 2, 3, 4], response_token_ids=[5]),
        chat(3, third, text("assistant", "c"), prompt_token_ids=[9], response_token_ids=[8]),
    )
    walk = walk_of(one("otel", found))
    assert walk[1].tokens == Tokens(ids=(1, 2, 3), sampled=1)
    assert walk[3].tokens == Tokens(ids=(4, 5), sampled=1) and "tokens" not in walk[3].attributes
    assert walk[5].tokens == Tokens(ids=(9, 8), sampled=1) and walk[5].attributes["tokens"] == "restart"


def test_older_flat_attributes_of_messages_read() -> None:
    flat = {
        "gen_ai.prompt.0.role": "user", "gen_ai.prompt.0.content": "q",
        "gen_ai.completion.0.role": "assistant", "gen_ai.completion.0.tool_calls.0.id": "c1",
        "gen_ai.completion.0.tool_calls.0.name": "search", "gen_ai.completion.0.tool_calls.0.arguments": '{"q": 1}',
    }  # fmt: skip
    span = chat(1, [], text("assistant", ""))
    span["attributes"] = [pair(key, value) for key, value in flat.items()]
    walk = walk_of(one("otel", spans(span)))
    assert walk[0].message.text == "q" and walk[1].message.tool_calls[0].parsed() == {"q": 1}


def test_written_trace_follows_the_conventions() -> None:
    bundle = walk_bundle(
        system("Be brief."),
        user("q"),
        assistant("", call("search", {"q": 1}, "c1")),
        tool_result("c1", "r"),
        assistant("a"),
    )
    (line,) = write("otel", [bundle])
    (scope,) = json.loads(str(line))["resourceSpans"][0]["scopeSpans"]
    told = [{p["key"]: next(iter(p["value"].values())) for p in span["attributes"]} for span in scope["spans"]]
    assert [span["gen_ai.operation.name"] for span in told] == ["invoke_agent", "chat", "execute_tool", "chat"]
    root = scope["spans"][0]
    assert {span["parentSpanId"] for span in scope["spans"][1:]} == {root["spanId"]} and len(root["traceId"]) == 32
    assert [m["role"] for m in json.loads(told[3]["gen_ai.input.messages"])] == ["system", "user", "assistant", "tool"]
    assert json.loads(told[1]["gen_ai.output.messages"])[0]["parts"] == [
        {"type": "tool_call", "id": "c1", "name": "search", "arguments": {"q": 1}}
    ]
    assert json.loads(told[1]["gen_ai.tool.definitions"])[0]["name"] == SEARCH.name
    assert told[2]["gen_ai.tool.call.result"] == "r"
    assert again("otel", bundle) == bundle


def test_answers_to_an_id_that_comes_again_stay_with_their_calls() -> None:
    said = assistant("", call("search", {}, "c"))
    for last in ("first", "second"):
        given_ = [user("q"), said, tool_result("c", "first"), said, tool_result("c", last)]
        (line,) = write("otel", [walk_bundle(*given_)])
        document = json.loads(str(line))
        root = document["resourceSpans"][0]["scopeSpans"][0]["spans"][0]
        root["attributes"] = [p for p in root["attributes"] if p["key"] not in ("silva", "gen_ai.input.messages")]
        assert [node.message for node in walk_of(one("otel", document))] == given_


def test_written_trace_reads_as_a_stranger_would_without_the_extension() -> None:
    bundle = walk_bundle(system("s"), user("q"), assistant("", call("search", {"q": 1}, "c1")), tool_result("c1", "r"))
    (line,) = write("otel", [bundle])
    document = json.loads(str(line))
    attributes = document["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["attributes"]
    attributes[:] = [p for p in attributes if p["key"] != "silva"]
    assert [node.message for node in walk_of(one("otel", document))] == [node.message for node in bundle.nodes]


def test_written_trace_says_the_provider_and_how_it_ended() -> None:
    bundle = walk_bundle(user("q"), assistant("a"))
    broke = Failure(boundary=Boundary.BUDGET, code="budget.time", message="too long")
    (trajectory,) = (msgspec.structs.replace(t, outcome=Outcome(status=Status.FAILED, failure=broke))
                     for t in bundle.trajectories)  # fmt: skip
    failed = msgspec.structs.replace(bundle, trajectories=(trajectory,))
    for given_, status in ((bundle, {}), (failed, {"code": 2, "message": "budget.time: too long"})):
        (line,) = write("otel", [given_])
        root, call_ = json.loads(str(line))["resourceSpans"][0]["scopeSpans"][0]["spans"]
        assert root["status"] == status and call_["status"] == {}
        for span in (root, call_):
            assert pair("gen_ai.provider.name", "silva") in span["attributes"]
    assert again("otel", failed) == failed
    imported = one("otel", *values("otel.json"))
    assert '"openai"' in "".join(str(piece) for piece in write("otel", [imported]))


@given(bundle=bundles())
def test_written_trace_is_what_opentelemetrys_own_messages_hold(bundle: Bundle) -> None:
    json_format = pytest.importorskip("google.protobuf.json_format")
    trace = pytest.importorskip("opentelemetry.proto.trace.v1.trace_pb2")

    def in_base64(document: Any) -> Any:
        """OTLP writes ids in hexadecimal, protobuf's own JSON in base64."""
        for span in document["resourceSpans"][0]["scopeSpans"][0]["spans"]:
            for key in ("traceId", "spanId", "parentSpanId"):
                span[key] = base64.b64encode(bytes.fromhex(span[key])).decode()
        return document

    for line in write("otel", [bundle]):
        spoken = json_format.ParseDict(in_base64(json.loads(str(line))), trace.TracesData())
        (scope,) = spoken.resource_spans[0].scope_spans
        for span in scope.spans:
            assert (len(span.trace_id), len(span.span_id)) == (16, 8) and span.kind and span.attributes
            assert span.end_time_unix_nano >= span.start_time_unix_nano


def test_file_written_twice_over_reads_once() -> None:
    for file in (
        "otel.json",
        "otel-events.jsonl",
        "phoenix-otlp.json",
        "phoenix-spans.jsonl",
        "langsmith-openai.jsonl",
    ):
        found = values(file)
        assert one(TRACES[file], *found, *found) == one(TRACES[file], *found)
    bundle = walk_bundle(user("q"), assistant("a"))
    (line,) = write("otel", [bundle])
    assert list(read("otel", [str(line), str(line)])) == [bundle]


def test_two_conversations_of_one_trace_are_two() -> None:
    def talk(number: int, name: str) -> dict[str, Any]:
        span = chat(number, [text("user", f"q {name}")], text("assistant", f"a {name}"))
        agent = {**span, "spanId": f"{number + 8:016x}", "parentSpanId": "f" * 16, "name": "agent"}
        agent["attributes"] = [pair("gen_ai.conversation.id", name)]
        return {"spans": [agent, {**span, "parentSpanId": agent["spanId"]}]}

    outer = {"traceId": "ab" * 16, "spanId": "f" * 16, "name": "app", "attributes": []}
    document = spans(outer, *talk(1, "x")["spans"], *talk(2, "y")["spans"])
    found = list(read("otel", [json.dumps(document)]))
    assert [[node.message.text for node in bundle.nodes] for bundle in found] == [["q x", "a x"], ["q y", "a y"]]


def test_what_follows_the_last_reply_is_read_without_the_extension() -> None:
    (line,) = write("otel", [walk_bundle(user("q"), assistant("a"), user("thanks"))])
    document = json.loads(str(line))
    attributes = document["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["attributes"]
    attributes[:] = [p for p in attributes if p["key"] != "silva"]
    assert [node.message.text for node in walk_of(one("otel", document))] == ["q", "a", "thanks"]


def test_edited_trace_is_refused() -> None:
    (line,) = write("otel", [walk_bundle(user("q"), assistant("ORIGINAL"))])
    with pytest.raises(FormatError, match="was changed after export"):
        list(read("otel", [str(line).replace("ORIGINAL", "edited")]))


@given(bundle=bundles())
def test_written_attributes_are_plain_otlp(bundle: Bundle) -> None:
    for line in write("otel", [bundle]):
        for span in json.loads(str(line))["resourceSpans"][0]["scopeSpans"][0]["spans"]:
            assert len(span["spanId"]) == 16 and span["startTimeUnixNano"].isdecimal()
            assert all(set(p["value"]) <= {"stringValue", "intValue", "arrayValue"} for p in span["attributes"])


def test_phoenix_reads_nested_attributes_and_a_data_frame_written_by_columns() -> None:
    llm = next(row for row in values("phoenix-spans.jsonl") if row["span_kind"] == "LLM")
    nested = {
        "llm": {
            "model_name": "scripted",
            "input_messages": [
                {"message": {"role": "user", "contents": [{"message_content": {"type": "text", "text": "q"}}]}}
            ],
            "output_messages": [{"message.role": "assistant", "message.content": "a"}],
        }
    }
    walk = walk_of(one("phoenix", {**llm, "attributes": nested}))
    assert [node.message.text for node in walk] == ["q", "a"]
    frame = {
        "context.span_id": {"0": "s1"}, "context.trace_id": {"0": "t1"}, "parent_id": {"0": None},
        "span_kind": {"0": "LLM"}, "start_time": {"0": 1_700_000_000_000}, "end_time": {"0": 1_700_000_001_000},
        "attributes.llm.input_messages": {"0": nested["llm"]["input_messages"]},
        "attributes.llm.output_messages": {"0": nested["llm"]["output_messages"]},
    }  # fmt: skip
    framed = walk_of(one("phoenix", frame))
    assert [node.message.text for node in framed] == ["q", "a"]
    assert framed[1].started == 1_700_000_000 and framed[1].usage.model_seconds == 1


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("otel", {"spans": []}, "resourceSpans: required field is missing"),
        ("otel", {"resourceSpans": 1}, "resourceSpans: must be a list"),
        ("otel", spans(3), "resourceSpans[0].scopeSpans[0].spans[0]: must be an object"),
        ("otel", spans({"attributes": [{"key": "a", "value": {"odd": 1}}]}), "resourceSpans[0].scopeSpans[0].spans[0]"),
        (
            "otel",
            spans(chat(1, [{"role": "robot"}], text("assistant", "a"))),
            "resourceSpans[0].scopeSpans[0].spans[0]",
        ),
        ("langsmith", {"id": "1"}, "run_type: required field is missing"),
        ("langsmith", {"run_type": "llm", "inputs": {"messages": [{"role": "robot"}]}}, "inputs.messages[0].role"),
        ("phoenix", {"name": "x"}, "context.span_id: required field is missing"),
        (
            "phoenix",
            {"context": {"span_id": "s"}, "span_kind": "LLM", "attributes": {"llm.input_messages": 3}},
            "attributes.llm.input_messages: must be a list",
        ),
        ("phoenix", {"context": {"span_id": "s"}, "attributes": {"a": 1, "a.b": 2}}, "attributes.a.b: stands beside"),
    ],
)
def test_error_names_line_and_field(name: str, value: Any, said: str) -> None:
    good = values({"otel": "otel.json", "langsmith": "langsmith-openai.jsonl", "phoenix": "phoenix-spans.jsonl"}[name])[
        0
    ]
    with pytest.raises(FormatError) as caught:
        list(read(name, [json.dumps(good), json.dumps(value)], file="t.json"))
    assert str(caught.value).startswith(f"t.json line 2: {said}"), str(caught.value)


GOLDEN = {
    **TRACES,
    "sharegpt.jsonl": "sharegpt",
    "adp.jsonl": "adp",
    "claude-code.jsonl": "claude-code",
    "codex.jsonl": "codex",
}
ODD = st.sampled_from(
    [None, True, -1, 1e300, 10**400, "", "x", "\ud800", "{", "[1", [], {}, [[]], [None], [3], {"type": 3}, {"a": {}}]
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    if isinstance(value, dict):
        return found + [each for key, item in value.items() for each in places(item, (*path, key))]
    if isinstance(value, list):
        return found + [each for place, item in enumerate(value) for each in places(item, (*path, place))]
    return found


@pytest.mark.parametrize("file", GOLDEN)
@settings(max_examples=40)
@given(data=st.data())
def test_damaged_file_reads_or_says_what_is_wrong_in_one_line(file: str, data: st.DataObject) -> None:
    assert GOLDEN[file] in FORMATS
    document = copy.deepcopy(values(file))
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.sampled_from(places(document) or [(0,)]))
        if not document:
            break
        at: Any = document
        for step in path[:-1]:
            at = at[step]
        if data.draw(st.booleans()):
            at[path[-1]] = copy.deepcopy(data.draw(ODD))
        else:
            del at[path[-1]]
    lines = [json.dumps(value) for value in document]
    try:
        for bundle in read(GOLDEN[file], lines, file="t.json"):
            for tree_id in {node.tree_id for node in bundle.nodes}:
                Tree(node for node in bundle.nodes if node.tree_id == tree_id)
    except FormatError as error:
        assert "\n" not in str(error) and str(error).startswith("t.json")

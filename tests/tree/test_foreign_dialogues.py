"""ShareGPT and ADP: what others write is read whole and goes out again, what is written keeps their rules."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from grown import bundles
from hypothesis import given
from test_formats import again, walk_bundle

from silva.tree import Author, ImagePart, TextPart, ThinkingPart, assistant, call, system, tool_result, tools, user
from silva.tree.formats import Bundle, FormatError, merged, read, write
from silva.tree.message import Message

TOOLS = Path(__file__).parent / "golden" / "tools"


def golden(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (TOOLS / name).read_text("utf-8").split("\n") if line]


def written(name: str, *given_: Bundle) -> list[dict[str, Any]]:
    return [json.loads(str(line)) for line in write(name, given_)]


def test_sharegpt_row_becomes_turns() -> None:
    row, axolotl, pair = golden("sharegpt.jsonl")
    (bundle,) = read("sharegpt", [json.dumps(row)])
    walk = bundle.walk(bundle.trajectories[0])
    assert [node.message.role for node in walk] == ["system", "user", "assistant", "tool", "assistant"]
    assert walk[2].message.tool_calls[0].name == "get_weather"
    assert walk[3].message.tool_call_id == walk[2].message.tool_calls[0].id
    assert walk[4].message.thinking == "short answer" and walk[4].message.text == "It is sunny in Paris."
    assert tools(walk)[0].parameters["properties"] == {"city": {"type": "string"}}
    (other,) = read("sharegpt", [json.dumps(axolotl)])
    assert other.nodes[2].attributes["fields"] == {"weight": 1}
    both = merged(read("sharegpt", [json.dumps(pair)]))[0]
    assert [node.message.text for node in both.nodes] == ["Which is larger, 9.9 or 9.11?", "9.9.", "9.11."]
    assert [t.attributes["sharegpt"]["preference"] for t in both.trajectories] == ["chosen", "rejected"]


def test_sharegpt_row_goes_out_as_it_came() -> None:
    for row in golden("sharegpt.jsonl")[:2]:
        (back,) = written("sharegpt", *read("sharegpt", [json.dumps(row)]))
        back.pop("silva")
        assert back == row


def test_sharegpt_written_row_is_what_trainers_read() -> None:
    picture = ImagePart(hash="a" * 64)
    bundle = walk_bundle(
        system("Be brief."),
        user("What is this?", picture),
        assistant("", call("search", {"q": "é"}, "c9"), call("search", {"q": 2}, "c8")),
        tool_result("c9", "a cat"),
        Message(role="assistant", parts=(ThinkingPart(text="hm"), TextPart(text="A cat."))),
    )
    (row,) = written("sharegpt", bundle)
    assert [entry["from"] for entry in row["conversations"]] == [
        "system",
        "human",
        "function_call",
        "observation",
        "gpt",
    ]
    assert row["images"] == [f"images/{'a' * 64}.png"] and row["conversations"][1]["value"].count("<image>") == 1
    assert json.loads(row["conversations"][2]["value"])[1] == {"name": "search", "arguments": {"q": 2}}
    assert row["conversations"][4]["value"] == "<think>\nhm\n</think>\n\nA cat."
    assert json.loads(row["tools"])[0]["name"] == "search"
    assert again("sharegpt", bundle) == bundle


def test_sharegpt_words_before_a_call_are_one_message() -> None:
    bundle = walk_bundle(user("q"), assistant("I look.", call("search", {}, "c1")), tool_result("c1", "r"))
    (row,) = written("sharegpt", bundle)
    assert [entry["from"] for entry in row["conversations"]] == ["human", "gpt", "function_call", "observation"]
    row.pop("silva")
    (plain,) = read("sharegpt", [json.dumps(row)])
    assert [(n.message.text, len(n.message.tool_calls)) for n in plain.nodes] == [("q", 0), ("I look.", 1), ("r", 0)]


def test_adp_trajectory_becomes_turns() -> None:
    row, old = golden("adp.jsonl")
    (bundle,) = read("adp", [json.dumps(row)])
    walk = bundle.walk(bundle.trajectories[0])
    assert [node.message.role for node in walk] == ["user", "assistant", "tool", "assistant", "tool", "assistant"]
    assert walk[1].message.text == "I open the page." and walk[1].message.thinking == "the list is there"
    assert walk[2].message.text.endswith("[1] text 'AB1 99'") and walk[2].reward == 0.25
    assert walk[3].message.tool_calls[0].parsed() == {"language": "bash", "content": "echo AB1 > note.txt"}
    assert bundle.trajectories[0].reward == 1.25
    (second,) = read("adp", [json.dumps(old)])
    assert second.nodes[2].message.tool_call_id == second.nodes[1].message.tool_calls[0].id


def test_adp_trajectory_goes_out_as_it_came() -> None:
    row = golden("adp.jsonl")[0]
    (back,) = written("adp", *read("adp", [json.dumps(row)]))
    back["details"].pop("silva")
    assert plain(back) == plain(row)


def plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items() if item is not None}
    return [plain(item) for item in value] if isinstance(value, list) else value


# The fields of the protocol's models, by class: it allows no other.
ADP_FIELDS = {
    "": "schema_version id content available_apis available_custom_tools available_code_languages details",
    "api_action": "class_ function kwargs description reasoning_content reward tool_call_id",
    "code_action": "class_ language content description reasoning_content reward tool_call_id",
    "message_action": "class_ content description reasoning_content reward",
    "text_observation": "class_ content source name reward tool_call_id",
    "image_observation": "class_ content source annotations reward tool_call_id",
}


@given(bundle=bundles())
def test_adp_written_has_no_field_the_protocol_lacks(bundle: Bundle) -> None:
    for row in written("adp", bundle):
        assert set(row) <= set(ADP_FIELDS[""].split()) and isinstance(row["id"], str)
        for item in row["content"]:
            assert set(item) <= set(ADP_FIELDS[item["class_"]].split())


def test_adp_parallel_calls_are_actions_in_a_row() -> None:
    said = assistant("Both.", call("search", {"q": 1}, "c1"), call("search", {"q": 2}, "c2"))
    bundle = walk_bundle(user("q"), said, tool_result("c1", "a"), tool_result("c2", "b"), assistant("Done."))
    (row,) = written("adp", bundle)
    classes = [item["class_"].partition("_")[0] for item in row["content"]]
    assert classes == ["text", "api", "api", "text", "text", "message"]
    row["details"] = {}
    (fresh,) = read("adp", [json.dumps(row)])
    assert [n.message for n in fresh.nodes] == [n.message for n in bundle.nodes]
    assert {n.author for n in fresh.nodes} == {Author.ENVIRONMENT, Author.POLICY}


SHARE = {"conversations": [{"from": "human", "value": "q"}]}
ADP = {"id": "a", "content": [{"class_": "text_observation", "content": "q", "source": "user"}], "details": {}}


@pytest.mark.parametrize(
    ("name", "row", "said"),
    [
        ("sharegpt", [1], "a row is an object with the key conversations, this is a number"),
        ("sharegpt", {}, "conversations: required field is missing"),
        ("sharegpt", {"conversations": 3}, "conversations: must be a list of entries"),
        ("sharegpt", {"conversations": [3]}, "conversations[0]: must be an object, this is a number"),
        ("sharegpt", {"conversations": [{"from": "robot"}]}, "conversations[0].from: unknown speaker 'robot'"),
        ("sharegpt", {"conversations": [{"from": "gpt", "value": []}]}, "conversations[0].value: must be a text"),
        ("sharegpt", {**SHARE, "tools": "nope"}, "tools: not JSON"),
        ("sharegpt", {**SHARE, "tools": [{}]}, "tools[0]: is no tool"),
        (
            "sharegpt",
            {"conversations": [{"from": "human", "value": "<image>"}], "images": ["cat.png"]},
            "images[0]: image 'cat.png' is not there",
        ),
        ("adp", {"content": 1}, "content: must be a list"),
        ("adp", {"content": [{"class_": "dance"}]}, "content[0].class_: unknown class 'dance'"),
        ("adp", {"content": [{"class_": "api_action"}]}, "content[0].function: required field is missing"),
        ("adp", {"content": [{**ADP["content"][0], "source": "sky"}]}, "content[0].source: unknown source 'sky'"),  # type: ignore[index]
        ("adp", {"content": [{"class_": "message_action", "reward": "x"}]}, "content[0].reward: must be a number"),
        ("adp", {**ADP, "details": {"silva": "nope"}}, "silva: not JSON"),
    ],
)
def test_error_names_line_and_field(name: str, row: Any, said: str) -> None:
    good = json.dumps(SHARE if name == "sharegpt" else ADP)
    with pytest.raises(FormatError) as caught:
        list(read(name, [good, json.dumps(row)], file="rows.jsonl"))
    assert str(caught.value).startswith(f"rows.jsonl line 2: {said}"), str(caught.value)


@pytest.mark.parametrize("name", ["sharegpt", "adp"])
def test_edited_words_are_refused(name: str) -> None:
    (line,) = write(name, [walk_bundle(user("q"), assistant("ORIGINAL"))])
    with pytest.raises(FormatError, match="was changed after export"):
        list(read(name, [str(line).replace("ORIGINAL", "edited")]))

"""ShareGPT and ADP: what others write is read whole and goes out again, what is written keeps their rules."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from grown import bundles, contents
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


PAIR: dict[str, Any] = {
    "conversations": [{"from": "human", "value": "<image> Which?"}],
    "chosen": {"from": "gpt", "value": "<image> this"},
    "rejected": {"from": "gpt", "value": "<image> that"},
    "images": [f"images/{letter * 64}.png" for letter in "ab"],
}


def test_sharegpt_answers_of_a_pair_count_their_pictures_from_the_prompt() -> None:
    (both,) = merged(read("sharegpt", [json.dumps(PAIR)]))
    for trajectory in both.trajectories:
        pictures = [p.hash[0] for n in both.walk(trajectory) for p in n.message.parts if isinstance(p, ImagePart)]
        assert pictures == ["a", "b"]


def test_sharegpt_pair_goes_out_as_a_pair_and_comes_back_whole() -> None:
    for pair in (golden("sharegpt.jsonl")[2], PAIR):
        (both,) = merged(read("sharegpt", [json.dumps(pair)]))
        (row,) = written("sharegpt", both)
        assert {key: value for key, value in row.items() if key != "silva"} == pair
        assert isinstance(row["silva"], str) and again("sharegpt", both) == both
        with pytest.raises(FormatError, match="was changed after export"):
            list(read("sharegpt", [json.dumps({**row, "rejected": {"from": "gpt", "value": "edited"}})]))
        with pytest.raises(FormatError, match="tells of 2 trajectories, the row of 1"):
            list(read("sharegpt", [json.dumps({**row, "rejected": None})]))


def test_sharegpt_rejected_answer_without_its_pair_is_no_example() -> None:
    (both,) = merged(read("sharegpt", [json.dumps(golden("sharegpt.jsonl")[2])]))
    lone = msgspec.structs.replace(both, trajectories=both.trajectories[1:])
    assert lone.trajectories[0].attributes["sharegpt"]["preference"] == "rejected"
    assert all(not row["conversations"] and set(row) == {"conversations", "silva"} for row in written("sharegpt", lone))
    assert contents(again("sharegpt", lone)) == contents(lone)


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
    row["schema_version"] = "1.5.0"
    row["content"][-1].pop("description")  # null, and not required there
    assert back == row


# The models of version 1.5.0, in short: by class the fields that must be there, those that may, and no other.
ADP_FIELDS = {
    "": ("id content", "schema_version available_custom_tools available_code_languages details"),
    "api_action": ("class_ function kwargs", "description reasoning_content reward tool_call_id"),
    "code_action": ("class_ language content description", "reasoning_content reward tool_call_id"),
    "message_action": ("class_ content", "description reasoning_content reward"),
    "text_observation": ("class_ content source", "name reward tool_call_id"),
    "image_observation": ("class_ content source", "annotations reward tool_call_id"),
    "web_observation": ("class_ html axtree url image_observation viewport_size", "reward tool_call_id"),
}
ADP_TYPES = {
    "function": str, "kwargs": dict, "content": str, "language": str, "source": str, "name": str,
    "reasoning_content": str, "tool_call_id": str, "class_": str,
}  # fmt: skip


def held_to_the_protocol(row: dict[str, Any]) -> None:
    """The rules of version 1.5.0: its fields, and how calls and observations are linked."""

    def fields(value: dict[str, Any], kind: str) -> None:
        must, may = (set(names.split()) for names in ADP_FIELDS[kind])
        assert must <= set(value) <= must | may, kind

    fields(row, "")
    assert row["schema_version"] == "1.5.0" and isinstance(row["id"], str)
    items = row["content"]
    called: list[str] = []
    answered: list[str] = []
    for place, item in enumerate(items):
        after = items[place + 1] if place + 1 < len(items) else None
        fields(item, item["class_"])
        assert all(isinstance(item[key], kind) for key, kind in ADP_TYPES.items() if key in item)
        assert item.get("source", "user") in ("user", "agent", "environment")
        assert item.get("language", "bash") in ("bash", "python"), "a language that the protocol lists"
        link, observed = item.get("tool_call_id"), item["class_"].endswith("_observation")
        if observed and link is not None:
            assert link in called and link not in answered and item.get("source") != "user"
            answered.append(link)
        elif link is not None:
            assert link not in called
            called.append(link)
        elif not observed and item["class_"] != "message_action":
            assert after is None or not after["class_"].endswith("_observation"), "a call its answer does not name"
    assert sorted(called) == sorted(answered)
    languages = sorted({item["language"] for item in items if item["class_"] == "code_action"})
    assert row.get("available_code_languages", []) == languages
    functions = {item["function"] for item in items if item["class_"] == "api_action"}
    assert "available_custom_tools" not in row or functions <= set(row["available_custom_tools"])


@given(bundle=bundles())
def test_adp_written_keeps_the_rules_of_the_protocol(bundle: Bundle) -> None:
    for row in written("adp", bundle):
        held_to_the_protocol(row)


def test_adp_foreign_rows_of_older_versions_go_out_by_the_rules_of_the_newest() -> None:
    old = {"source": "system", "class_": "text_observation", "content": "Be brief."}
    page = {"class_": "web_observation", "html": "<p>", "axtree": None, "url": None, "image_observation": None,
            "viewport_size": None}  # fmt: skip
    run = {"class_": "code_action", "language": "bash", "content": "ls", "description": None, "tool_call_id": "c"}
    rows = [*golden("adp.jsonl"), {"id": "a", "content": [old, run, page], "available_apis": ["x"], "details": {}}]
    for row in rows:
        for back in written("adp", *read("adp", [json.dumps(row)])):
            held_to_the_protocol(back)


def test_adp_call_without_an_answer_is_cut_where_an_observation_follows() -> None:
    asked = assistant("I look.", call("search", {"q": 1}, "c1"))
    (row,) = written("adp", walk_bundle(user("q"), asked, user("stop")))
    assert [item["class_"] for item in row["content"]] == ["text_observation", "message_action", "text_observation"]
    assert row["content"][1]["content"] == "I look."
    (last,) = written("adp", walk_bundle(user("q"), asked))
    assert last["content"][1]["class_"] == "api_action" and "tool_call_id" not in last["content"][1]


def test_adp_ids_that_come_again_are_told_apart_and_system_words_stay_such() -> None:
    said = assistant("", call("search", {"q": 1}, "c1"))
    given_ = (system("Be brief."), user("q"), said, tool_result("c1", "a"), said, tool_result("c1", "b"))
    (row,) = written("adp", walk_bundle(*given_))
    assert [item.get("tool_call_id") for item in row["content"][2:]] == ["c1", "c1", "c1-2", "c1-2"]
    row["details"] = {}
    (fresh,) = read("adp", [json.dumps(row)])
    assert [(n.message.role, n.message.text) for n in fresh.nodes] == [(m.role, m.text) for m in given_]
    assert again("adp", walk_bundle(*given_)) == walk_bundle(*given_)


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

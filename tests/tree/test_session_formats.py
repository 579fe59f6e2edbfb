"""Session files of Claude Code and Codex: their branches become branches, and a walk is what the model saw."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from silva.tree import Author, Node, Tree
from silva.tree.formats import Bundle, FormatError, read

TOOLS = Path(__file__).parent / "golden" / "tools"


def lines(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (TOOLS / name).read_text("utf-8").split("\n") if line]


def grown(name: str, given: list[dict[str, Any]]) -> Bundle:
    (bundle,) = read(name, [json.dumps(line) for line in given], file="s.jsonl", run="r")
    return bundle


def walks(bundle: Bundle) -> list[list[Node]]:
    return [list(bundle.walk(trajectory)) for trajectory in bundle.trajectories]


def texts(walk: list[Node]) -> list[str]:
    return [node.message.text for node in walk]


def test_claude_session_with_parallel_calls_is_one_walk() -> None:
    bundle = grown("claude-code", lines("claude-code.jsonl"))
    first, after = walks(bundle)
    assert [node.message.role for node in first] == [
        "user",
        "assistant",
        "tool",
        "tool",
        "assistant",
        "tool",
        "assistant",
    ]
    reply = first[1]
    assert reply.message.thinking == "I look at both files at once." and reply.message.text == "I read both files."
    assert [call.id for call in reply.message.tool_calls] == ["toolu_1", "toolu_2"]
    assert [node.message.tool_call_id for node in first[2:4]] == ["toolu_1", "toolu_2"]
    assert (reply.finish_reason, reply.usage.cached_tokens, reply.usage.prompt_tokens) == ("tool_use", 100, 225)
    assert (
        first[0].author is Author.PERSON and first[2].attributes["claude-code"]["toolUseResult"]["stdout"] == "one\ntwo"
    )
    assert after[-1].message.text == "a.txt has two lines, b.txt one."


def test_claude_compaction_opens_a_root_and_says_what_it_follows() -> None:
    bundle = grown("claude-code", lines("claude-code.jsonl"))
    before, after = bundle.trajectories
    tree = Tree(bundle.nodes)
    assert len(tree.roots) == 2 and {before.tree_id, after.tree_id} == {tree.id}
    summary = bundle.walk(after)[0]
    assert summary.author is Author.SUMMARISER and summary.message.text.startswith("This session is being continued")
    told = after.attributes["claude-code"]
    assert told["after"] == bundle.walk(before)[-1].attributes["claude-code"]["uuid"]
    assert told["compaction"]["trigger"] == "manual" and told["branch"] == "main"
    assert told["other_lines"]["attachment/skill_listing"] == 2


def test_claude_reply_that_was_not_sampled_is_no_turn_of_the_policy() -> None:
    bundle = grown("claude-code", lines("claude-code.jsonl"))
    (made_up,) = [node for node in bundle.nodes if node.message.text == "No response requested."]
    assert made_up.author is Author.ENVIRONMENT and made_up.message.role == "assistant" and not made_up.model


def test_claude_sidechain_in_the_same_file_is_a_root_of_its_own() -> None:
    main, side = lines("claude-code.jsonl"), lines("claude-code-subagent.jsonl")
    bundle = grown("claude-code", [*main, *side])
    assert len(Tree(bundle.nodes).roots) == 3
    (trajectory,) = [t for t in bundle.trajectories if t.attributes["claude-code"]["branch"] == "sidechain"]
    told = trajectory.attributes["claude-code"]
    assert told["caller"] == "toolu_3" and told["agent_id"] == side[0]["agentId"]
    assert texts(list(bundle.walk(trajectory)))[-1] == "a.txt has 2 lines."
    assert {trajectory.tree_id} == {node.tree_id for node in bundle.nodes}


def said(uuid: str, parent: str | None, role: str, content: Any, **fields: Any) -> dict[str, Any]:
    message = {"role": role, "content": content, **fields.pop("message", {})}
    return {
        "type": role, "uuid": uuid, "parentUuid": parent, "sessionId": "s", "message": message,
        "timestamp": "2026-01-01T00:00:00Z", **fields,
    }  # fmt: skip


def test_claude_edited_prompt_is_a_branch() -> None:
    given = [
        said("u1", None, "user", "hello"),
        said("a1", "u1", "assistant", [{"type": "text", "text": "hi"}]),
        said("u2", "a1", "user", "first wording"),
        said("a2", "u2", "assistant", [{"type": "text", "text": "one"}]),
        {"type": "file-history-snapshot", "messageId": "u3", "snapshot": {}},
        said("u3", "a1", "user", "second wording"),
        said("a3", "u3", "assistant", [{"type": "text", "text": "two"}]),
        {"type": "summary", "summary": "Greetings", "leafUuid": "a3"},
    ]
    bundle = grown("claude-code", given)
    assert [texts(walk) for walk in walks(bundle)] == [
        ["hello", "hi", "first wording", "one"],
        ["hello", "hi", "second wording", "two"],
    ]
    assert len(bundle.nodes) == 6 and len(Tree(bundle.nodes).branches) == 1
    told = [trajectory.attributes["claude-code"] for trajectory in bundle.trajectories]
    assert [each["branch"] for each in told] == ["left", "main"] and told[0]["titles"] == ["Greetings"]
    assert told[0]["other_lines"] == {"file-history-snapshot": 1, "summary": 1}


def test_claude_session_that_went_on_keeps_its_nodes() -> None:
    given = lines("claude-code.jsonl")
    early, late = grown("claude-code", given[:15]), grown("claude-code", given)
    assert {node.id for node in early.nodes} <= {node.id for node in late.nodes}
    assert not {t.id for t in early.trajectories} & {t.id for t in late.trajectories}


def test_claude_retried_answer_is_a_branch_and_unknown_blocks_are_kept() -> None:
    use = {"type": "tool_use", "id": "c1", "name": "Bash", "input": {"command": "ls"}}
    given = [
        said("u1", None, "user", [{"type": "text", "text": "go"}, {"type": "document", "source": {"data": "x"}}]),
        said("a1", "u1", "assistant", [use], message={"id": "m1"}),
        said("r1", "a1", "user", [{"type": "tool_result", "tool_use_id": "c1", "content": "no", "is_error": True}]),
        said("a2", "r1", "assistant", [{"type": "text", "text": "failed"}]),
        said("r2", "a1", "user", [{"type": "tool_result", "tool_use_id": "c1", "content": "yes"}]),
        said("a3", "r2", "assistant", [{"type": "text", "text": "done"}]),
    ]
    bundle = grown("claude-code", given)
    assert [texts(walk)[2:] for walk in walks(bundle)] == [["no", "failed"], ["yes", "done"]]
    assert bundle.nodes[0].message.text == "go\n[document]"
    assert bundle.nodes[0].attributes["claude-code"]["message"]["blocks"] == [
        {"type": "document", "source": {"data": "x"}}
    ]
    assert bundle.nodes[2].attributes["claude-code"]["message"] == {"is_error": True}


def test_codex_session_becomes_turns() -> None:
    bundle = grown("codex", lines("codex.jsonl"))
    (walk,) = walks(bundle)
    roles = [node.message.role for node in walk]
    assert roles == ["system", "system", "user", "user", "assistant", "tool", "assistant", "tool", "assistant"]
    assert [node.author for node in walk[2:4]] == [Author.ENVIRONMENT, Author.PERSON]
    reply = walk[4]
    assert reply.message.thinking == "**Reading the file**" and reply.message.text == "I read the file."
    assert reply.message.parts[0].signature == "ZW5j"  # type: ignore[union-attr]
    assert reply.message.tool_calls[0].arguments == '{"cmd": "cat a.txt"}'
    assert "one\ntwo" in walk[5].message.text and walk[5].message.tool_call_id == "call_1"
    assert (reply.model, reply.usage.prompt_tokens, reply.usage.cached_tokens) == ("gpt-5-codex", 120, 100)
    (trajectory,) = bundle.trajectories
    assert trajectory.usage.completion_tokens == 90 and trajectory.turns == 3
    told = trajectory.attributes["codex"]
    assert told["session"]["cli_version"] == "0.169.0" and told["other_lines"]["world_state"] == 1


def item(kind: str, **fields: Any) -> dict[str, Any]:
    return {"timestamp": "2026-01-01T00:00:00Z", "type": "response_item", "payload": {"type": kind, **fields}}


def event(kind: str, **fields: Any) -> dict[str, Any]:
    return {"timestamp": "2026-01-01T00:00:00Z", "type": "event_msg", "payload": {"type": kind, **fields}}


def words(role: str, text: str) -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}


def message(role: str, text: str) -> dict[str, Any]:
    return item(**{("kind" if key == "type" else key): value for key, value in words(role, text).items()})


def test_codex_roll_back_is_a_branch() -> None:
    given = [
        message("user", "one"), message("assistant", "1"),
        message("user", "two"), message("assistant", "2"),
        event("thread_rolled_back", num_turns=1),
        message("user", "three"), message("assistant", "3"),
    ]  # fmt: skip
    bundle = grown("codex", given)
    assert [texts(walk) for walk in walks(bundle)] == [["one", "1", "two", "2"], ["one", "1", "three", "3"]]
    assert [t.attributes["codex"]["branch"] for t in bundle.trajectories] == ["left", "main"]


def test_codex_compaction_is_a_branch_that_shares_what_it_kept() -> None:
    history = [words("user", "one"), words("user", "Summary: it said 1.")]
    given = [
        message("user", "one"), message("assistant", "1"),
        {"type": "compacted", "payload": {"message": "", "replacement_history": history}},
        message("user", "two"), message("assistant", "2"),
    ]  # fmt: skip
    bundle = grown("codex", given)
    assert [texts(walk) for walk in walks(bundle)] == [["one", "1"], ["one", "Summary: it said 1.", "two", "2"]]
    assert len(Tree(bundle.nodes).roots) == 1
    assert [node.author for node in walks(bundle)[1]][1] is Author.SUMMARISER
    assert "compacted" in bundle.trajectories[1].attributes["codex"]


def test_codex_custom_calls_and_unknown_items_are_kept_or_counted() -> None:
    patch = "*** Begin Patch\n*** End Patch\n"
    given = [
        message("user", "go"),
        item("custom_tool_call", call_id="c1", name="apply_patch", input=patch),
        item("custom_tool_call_output", call_id="c1", output="done"),
        item("local_shell_call", call_id="c2", action={"type": "exec", "command": ["ls"]}),
        item("ghost_snapshot", ghost_commit={}),
        item("function_call_output", call_id="c2", output={"content": "a.txt", "success": True}),
        {"timestamp": "2026-01-01T00:00:00Z", "type": "novelty", "payload": {}},
    ]
    bundle = grown("codex", given)
    (walk,) = walks(bundle)
    assert (
        walk[1].message.tool_calls[0].arguments == patch and walk[1].attributes["codex"]["kind"] == "custom_tool_call"
    )
    assert walk[3].message.tool_calls[0].parsed() == {"type": "exec", "command": ["ls"]}
    assert walk[4].message.text == "a.txt"
    counted = bundle.trajectories[0].attributes["codex"]["other_lines"]
    assert counted == {"response_item/ghost_snapshot": 1, "novelty": 1}


def test_codex_older_file_without_envelopes_reads() -> None:
    given = [
        {"id": "s", "timestamp": "2025-06-01T00:00:00Z", "instructions": "Be brief.", "git": {}},
        words("user", "q"),
        {"record_type": "state"},
        words("assistant", "a"),
    ]
    assert texts(walks(grown("codex", given))[0]) == ["Be brief.", "q", "a"]


@pytest.mark.parametrize(
    ("name", "row", "fault"),
    [
        ("claude-code", 3, "must be an object, this is a number"),
        ("claude-code", {"uuid": "u"}, "type: required field is missing"),
        ("claude-code", {"type": "user", "message": {"role": "user"}}, "uuid: required field is missing"),
        ("claude-code", said("u", None, "user", 7), "message.content: must be a text or a list of blocks"),
        ("claude-code", said("u", None, "user", [7]), "message.content[0]: must be an object"),
        (
            "claude-code",
            said("u", None, "assistant", [{"type": "tool_use", "id": "c"}]),
            "message.content[0].name: required field is missing",
        ),
        ("claude-code", said("u", None, "user", "x", timestamp="later"), "timestamp: 'later' is not ISO 8601"),
        ("codex", {"type": "response_item", "payload": 3}, "payload: must be an object"),
        ("codex", item("message", role="robot", content=[]), "payload.role: unknown role 'robot'"),
        ("codex", item("custom_tool_call", name=3), "payload.name: must be a text"),
    ],
)
def test_error_names_line_and_field(name: str, row: Any, fault: str) -> None:
    good = lines(f"{name}.jsonl")[2]
    with pytest.raises(FormatError) as caught:
        list(read(name, [json.dumps(good), json.dumps(row)], file="s.jsonl"))
    assert str(caught.value).startswith(f"s.jsonl line 2: {fault}"), str(caught.value)

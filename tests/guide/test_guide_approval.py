"""Actions that wait for a person: nothing is done before it is decided, and a kill asks for the same decision."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from guiding import TASK, Told, asked, part, said_by, settings, speaker

from silva.envs.gyms.arithmetic import Arithmetic
from silva.errors import UsageError
from silva.guide import post, waiting, words
from silva.guide.event import became_of
from silva.guide.follow import plain
from silva.lake import Lake
from silva.rollout.replay import replay
from silva.rollout.run import run_rollout
from silva.rollout.stages.approval import Rule
from silva.tree import Author, assistant, call

TWO = {"guidance": {"patterns": ["number.: ?2"]}}
FIFTY = '{"name": "add", "arguments": {"number": 50}}'


async def overseen(home: Path, *decisions: Any, **fields: Any) -> Told:
    speaker(home, {})
    result, overseer = await part(home, decisions=decisions, **{**TWO, **fields})
    assert not overseer.decisions, "everybody who was to be asked was asked"
    return Told(home, result)


async def test_an_approved_action_is_taken(home: Path) -> None:
    told = await overseen(home, ("approve", {"why": "fine"}))
    assert said_by(Author.ENVIRONMENT, told.walk)[2:] == ["total 0", "total 1", "total 3", "total 6"]
    waited = [node for node in told.walk if "asked" in node.attributes]
    assert [node.attributes["asked"] for node in waited] == [["matches number.: ?2"]]
    assert [(each.node_id, each.by, each.reason) for each in told.given] == [(waited[0].id, "bob", "fine")]
    assert waiting(home / "lake", "r") == []


async def test_what_waits_and_what_is_forbidden_is_told_however_it_is_written(home: Path) -> None:
    """JSON escapes in the arguments, as a model may write them, bypass neither; people read what they stand for."""
    speaker(home, {"0": [{"kind": "forbid", "pattern": "number.: ?3|--force"}]})
    code = (home / "speaker.py").read_text()
    escaped = '"{\\"n\\\\u0075mber\\": " + str(made) + ", \\"w\\": \\"\\\\u202e\\"}"'
    (home / "speaker.py").write_text(code.replace('{"number": made}', escaped))
    result, overseer = await part(home, decisions=("approve",), **TWO, budget={"turns": 4})
    told = Told(home, result)
    (waited,) = [facts for kind, facts in overseer.events if kind == "waiting"]
    assert waited["reasons"] == ("matches number.: ?2",) and '"number": 2' in waited["action"]
    assert plain(waited["action"]) == 'add({"number": 2, "w": "<U+202E>"})'
    refused = [node for node in told.nodes if "refused" in node.attributes]
    assert [call.parsed()["number"] for node in refused for call in node.message.tool_calls] == [3]
    assert "\\u0075" in refused[0].message.tool_calls[0].arguments, "the tree keeps what the policy wrote"


async def test_a_rejected_action_is_not_taken_and_the_agent_is_told_why(home: Path) -> None:
    told = await overseen(home, ("reject", {"why": "no twos"}))
    refused = [node for node in told.walk if "asked" in node.attributes]
    assert said_by(Author.ENVIRONMENT, told.walk)[2:] == ["total 0", "total 1", "total 4"]
    answer = told.walk[told.walk.index(refused[0]) + 1]
    assert answer.author is Author.PERSON and answer.message.role == "tool"
    assert "rejected" in answer.message.text and "no twos" in answer.message.text
    assert answer.message.tool_call_id == refused[0].message.tool_calls[0].id
    assert told.kinds() == [("reject", "mask", "bob")]
    with Lake.open(home / "lake", mode="read") as lake:
        task = next(each for each in lake.tasks() if each.id == TASK)
    again = await replay(Arithmetic(), task, 0, told.walk)
    assert again.turns == 4 and again.divergence is None, "a replay does not take it either"


async def test_an_edit_takes_the_persons_action_and_leaves_the_other_beside_it(home: Path) -> None:
    told = await overseen(home, ("edit", {"action": FIFTY}))
    taken = next(node for node in told.walk if node.author is Author.PERSON)
    aside = next(node for node in told.nodes if "asked" in node.attributes)
    assert taken.attributes["instead_of"] == aside.id and taken.parent_id == aside.parent_id
    assert aside.id not in {node.id for node in told.walk}
    assert said_by(Author.ENVIRONMENT, told.walk)[2:] == ["total 0", "total 1", "total 51", "total 54"]
    assert told.last.turns == 5 and told.last.attempt == 0
    assert {(each.node_id, each.verdict) for each in told.given} == {(aside.id, "mask"), (taken.id, "note")}
    spent = sum(node.usage.completion_tokens for node in told.nodes)
    assert told.last.usage.completion_tokens == spent > 0, "what was set aside was paid for"


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    "decision",
    [
        "approve",
        pytest.param(("reject", {"why": "no"}), marks=SLOW),
        pytest.param(("edit", {"action": FIFTY}), marks=SLOW),
    ],
)
async def test_one_that_waits_still_waits_after_the_run_was_cut_off(home: Path, decision: Any) -> None:
    speaker(home, {})
    fields = {**TWO, "budget": {"turns": 4}}
    result, _ = await part(home, decisions=("none",), **fields)
    assert result.remaining == 1
    (one,) = waiting(home / "lake", "r")
    assert one.turn == 3 and one.action.replace(" ", "") == 'add({"number":2})' and one.task_id == TASK
    result, overseer = await part(home, resume=True, decisions=(decision, decision), **fields)
    told = Told(home, result)
    assert next(facts["node_id"] for kind, facts in overseer.events if kind == "waiting") == one.node_id
    assert asked(home).count(2) == 1, "the model was not asked for that turn again"
    assert told.result.remaining == 0 and told.last.turns == 4


async def test_the_deadline_waits_too_and_stop_ends_the_waiting(home: Path) -> None:
    speaker(home, {})
    result, overseer = await part(home, decisions=(("stop", {"node": "", "to": "*"}),), **TWO)
    told = Told(home, result)
    assert told.last.attributes["stopped"]["by"] == "bob" and told.last.outcome.failure is None
    assert "Not done" in told.walk[-1].message.text, "the action that waited was not taken"
    assert ("decided", "stop") in [(kind, facts.get("text")) for kind, facts in overseer.events]


@SLOW
async def test_going_back_while_an_action_waits(home: Path) -> None:
    speaker(home, {})
    back = ("back", {"turn": 1, "action": FIFTY, "node": ""})
    result, _ = await part(home, decisions=(back, "approve"), **TWO)
    told = Told(home, result)
    assert told.last.attempt == 1 and said_by(Author.ENVIRONMENT, told.walk)[2] == "total 50"


@SLOW
async def test_a_run_that_has_ended_waits_for_nobody_and_says_what_was_heard(home: Path) -> None:
    speaker(home, {})
    result, overseer = await part(home, decisions=("approve",), **TWO)
    assert result.remaining == 0
    with pytest.raises(UsageError, match="has ended"):
        post(home / "lake", "r", "approve", "ann")
    assert [each.kind for each in words(home / "lake", "r")] == ["approve"]
    fates = became_of(overseer.mailroom.events.read())
    assert [fate.shown() for fate in fates.values()] == ["heard"]


async def test_of_two_decisions_the_first_counts(home: Path) -> None:
    speaker(home, {})
    await part(home, decisions=("none",), **TWO)
    (one,) = waiting(home / "lake", "r")
    for who, kind in (("ann", "reject"), ("bob", "approve")):
        (said,) = post(home / "lake", "r", kind, who, why=who)
        assert said.node == one.node_id
    with pytest.raises(UsageError, match="no action waits"):
        post(home / "lake", "r", "approve", "ann", turn=9)
    result, overseer = await part(home, resume=True, decisions=("approve",), **{**TWO, "budget": {"turns": 4}})
    told = Told(home, result)
    assert ("reject", "mask", "ann") in told.kinds()
    assert ("undone", "ann had decided: reject") in [(kind, facts.get("text")) for kind, facts in overseer.events]


def test_which_actions_wait(tmp_path: Path) -> None:
    def reasons(action: Any, **guidance: Any) -> tuple[str, ...]:
        return Rule(settings(tmp_path, "http://x", guidance=guidance)).reasons(action)

    delete, add = assistant("", call("delete_file", {"path": "a"})), assistant("", call("add", {"number": 1}))
    assert reasons(delete, approve="risky") == ("delete",) and reasons(add, approve="risky") == ()
    assert reasons(add, approve="all") == ("every action",) and reasons(delete, approve="all") == ("delete",)
    assert reasons(assistant("rm it"), patterns=["rm"]) == ("matches rm",) and reasons(delete, patterns=["rm"]) == ()


def test_an_allow_list_names_what_need_not_wait(tmp_path: Path) -> None:
    allowed = ["ls( .*)?", "git (status|diff)( .*)?", "sudo .*", "cat [^/].*", "add"]

    def reasons(name: str, **arguments: Any) -> tuple[str, ...]:
        given = {"approve": "unlisted", "allowed": allowed}
        return Rule(settings(tmp_path, "http://x", guidance=given)).reasons(assistant("", call(name, arguments)))

    for fine in ("ls", "ls -la && git status", "sudo ls", "/bin/ls", "l''s -a | cat x", "ls 2>&1 > /dev/null"):
        assert reasons("run_command", command=fine) == (), fine
    assert reasons("add", number=1) == ()
    assert reasons("drop", number=1) == ("not on the list: drop",)
    assert reasons("run_command", command="ls; rm -rf x") == ("not on the list: rm -rf x",)
    assert reasons("run_command", command="sudo rm x") == ("not on the list: rm x",), "what it starts is looked at too"
    assert reasons("run_command", command="ls $(touch x)") == ("not on the list: touch x",)
    assert reasons("run_command", command="ls > x") == ("not on the list: ls > x",)
    assert reasons("run_command", command="> x; LD_PRELOAD=./a.so ls") == (
        "not on the list: > x",
        "not on the list: ls",
    )
    assert reasons("run_command", command="./ls") != () and reasons("run_command", command="/tmp/ls") != ()
    assert reasons("run_command", command="$L") == ("not on the list: $L",)
    assert reasons("run_command", command="(" * 400 + "touch x") != ()


def test_waiting_needs_somebody_who_listens(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nobody listens"):
        asyncio.run(run_rollout(settings(tmp_path, "http://x", **TWO)))
    with pytest.raises(ValueError, match="do not hear people"):
        settings(tmp_path, "http://x", agent="program: x", **TWO)
    with pytest.raises(ValueError, match="not a regular expression"):
        settings(tmp_path, "http://x", guidance={"patterns": ["("]})

"""Masking a run: what rules, a scripted judge and a person say ends in the lake, once, and takes the loss away."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from walks import act, nodes, walk

from silva.cli.main import run as silva
from silva.curate.mask.agreement import pair, raters
from silva.curate.mask.judge import read_verdicts
from silva.errors import Exit
from silva.lake import Lake
from silva.models.scripted import Script, ScriptedServer
from silva.tree import Outcome, Run, Status, Supervision, Trajectory, masked_nodes

LOOK = act("run_command", command="ls")
BAD = act("run_command", command="make it so")
WORDS = ("person", "do not delete a.py")


def fill(place: Path) -> list[str]:
    """A run of one walk of four actions, the second of which fails; the ids of the actions."""
    told = nodes(LOOK, "a.py", BAD, "bash: make: command not found", WORDS, LOOK, "a.py", LOOK)
    trajectory = Trajectory(
        id="trajectory",
        run_id="run",
        tree_id="tree",
        task_id="task",
        env="e",
        index=0,
        attempt=0,
        seed=0,
        leaf_id=told[-1].id,
        outcome=Outcome(status=Status.COMPLETED, score=1.0),
        turns=4,
    )

    async def keep() -> None:
        async with Lake.open(place) as lake:
            await lake.append([Run(id="run", status="finished"), *told, trajectory])

    asyncio.run(keep())
    return [node.id for node in told if node.author == "policy"]


def said(place: Path) -> list[Supervision]:
    with Lake.open(place, mode="read") as lake:
        return lake.supervisions(run_id="run")


def judged(*verdicts: tuple[int, bool], around: str = "") -> str:
    entries = [{"turn": n, "kind": "execution", "keep": keep, "reason": f"because {n}"} for n, keep in verdicts]
    return around + json.dumps({"turns": entries}) + around


def judge_saying(reply: str, *rules: dict[str, Any]) -> ScriptedServer:
    return ScriptedServer(msgspec.convert({"rules": rules, "otherwise": {"text": reply}}, Script))


def test_what_is_masked_stands_in_the_lake_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    actions = fill(tmp_path / "lake")
    words = ["curate", "mask", "--lake", str(tmp_path / "lake"), "--run", "run", "--json"]
    assert silva([*words, "--dry-run"]) == Exit.OK
    assert json.loads(capsys.readouterr().out)["written"] == 0 and not said(tmp_path / "lake")
    assert silva(words) == Exit.OK
    told = json.loads(capsys.readouterr().out)
    assert told["turns"] == 4 and told["by"] == {"error-observation": 1} and told["written"] == 1
    assert silva(words) == Exit.OK and json.loads(capsys.readouterr().out)["written"] == 0
    (one,) = said(tmp_path / "lake")
    assert (one.node_id, one.verdict, one.source, one.by) == (actions[1], "mask", "rule", "error-observation")
    assert "command not found" in one.reason
    assert masked_nodes([one]) == {actions[1]}


def test_a_judge_keeps_what_a_rule_masked_and_masks_what_a_person_contradicts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    actions = fill(tmp_path / "lake")
    reply = judged((1, False), (2, True), (3, True), (4, True), around="\n```\n")
    shown = {"when": {"last": r"turn 3\]\s+PERSON, before this turn: do not delete a\.py"}, "reply": {"text": reply}}
    with judge_saying("nothing, unless it is shown the words", shown) as server:
        words = ["curate", "mask", "--lake", str(tmp_path / "lake"), "--run", "run"]
        assert silva([*words, "--judge", f"{server.url}#scripted"]) == Exit.OK
    assert "judged 4, unjudged 0" in capsys.readouterr().out
    given_ = said(tmp_path / "lake")
    assert masked_nodes(given_) == {actions[0]}
    model = {each.node_id: each for each in given_ if each.source == "model"}
    assert model[actions[1]].attributes == {"kind": "execution"} and model[actions[1]].reason == "because 2"
    assert silva(["curate", "agreement", "--lake", str(tmp_path / "lake"), "--json"]) == Exit.OK
    pairs = {(each["left"], each["right"]): each for each in json.loads(capsys.readouterr().out)}
    one = pairs["rule:error-observation", "any rule"]
    assert one["agree"] == 1.0 and one["kappa"] == 1.0
    other = next(each for (left, right), each in pairs.items() if left == "any rule" and right.startswith("model:"))
    assert other["turns"] == 4 and other["agree"] == 0.5 and other["precision"] == 0.0


@pytest.mark.parametrize("reply", ["no idea", "{}", '{"turns": 3}', judged((1, True), (9, True))])
def test_turns_without_a_verdict_stay_unjudged_and_are_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], reply: str
) -> None:
    fill(tmp_path / "lake")
    with judge_saying(reply) as server:
        words = [
            "curate",
            "mask",
            "--lake",
            str(tmp_path / "lake"),
            "--run",
            "run",
            "--judge",
            f"{server.url}#scripted",
        ]
        assert silva([*words, "--json"]) == Exit.INCOMPLETE
    out = capsys.readouterr()
    told = json.loads(out.out)
    assert told["judged"] + told["unjudged"] == 4 and told["unjudged"] in (3, 4)
    assert "warning: the judge" in out.err
    assert sum(each.source == "model" for each in said(tmp_path / "lake")) == told["judged"]


def test_a_judge_who_is_not_there_costs_no_rule(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fill(tmp_path / "lake")
    words = ["curate", "mask", "--lake", str(tmp_path / "lake"), "--run", "run", "--json", "judge.deadline=1"]
    assert silva([*words, "--judge", "http://127.0.0.1:9/v1#nobody"]) == Exit.INCOMPLETE
    out = capsys.readouterr()
    assert json.loads(out.out)["unjudged"] == 4 and "cannot be asked" in out.err
    assert [each.by for each in said(tmp_path / "lake")] == ["error-observation"]


def test_bad_words_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fill(tmp_path / "lake")
    lake = ["--lake", str(tmp_path / "lake")]
    for words, expected in (
        (["mask", *lake], "name a run to judge"),
        (["mask", *lake, "--run", "other"], "has no run 'other'"),
        (["mask", *lake, "--run", "run", "--rule", "blind"], "no rule 'blind'"),
        (["mask", *lake, "--run", "run", 'errors=["("]'], "is no regular expression"),
        (["agreement", *lake, "--run", "other"], "has no run 'other'"),
    ):
        assert silva(["curate", *words]) == Exit.USAGE
        told = capsys.readouterr().err
        assert expected in told and len(told.splitlines()) == 1


@given(st.text(max_size=200))
def test_no_reply_is_guessed_at(text: str) -> None:
    told = walk(LOOK, "a", LOOK, "b")
    assert isinstance(read_verdicts(text, told.turns), str)


def test_two_verdicts_for_one_turn_count_only_where_they_agree() -> None:
    told = walk(LOOK, "a", LOOK, "b")
    found: Any = read_verdicts(judged((1, True), (1, False), (2, True), (2, True)), told.turns)
    assert set(found) == {2}


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=40))
def test_agreement_of_one_with_himself_and_with_another(says: list[tuple[bool, bool]]) -> None:
    left = {str(n): a for n, (a, _) in enumerate(says)}
    right = {str(n): b for n, (_, b) in enumerate(says)}
    same = pair("a", left, "a", left)
    assert same.agree == 1.0 and same.kappa in (None, 1.0)
    one, other = pair("a", left, "b", right), pair("b", right, "a", left)
    assert one.agree == other.agree and one.kappa == other.kappa and one.precision == other.recall
    assert one.kappa is None or -1.0 <= one.kappa <= 1.0


def test_the_later_word_of_one_judge_counts() -> None:
    def word(verdict: Any, at: float) -> Supervision:
        return Supervision(id=f"{at}", node_id="n", run_id="run", verdict=verdict, source="person", by="ann", at=at)

    assert raters([word("bad", 1.0), word("keep", 2.0), word("note", 3.0)], ["n"]) == {"person:ann": {"n": False}}

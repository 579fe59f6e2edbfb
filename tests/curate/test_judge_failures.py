"""A judge that fails, in every way an endpoint can: turns stay unjudged and are counted, nothing is guessed, no rule is
lost; and one that is asked window by window still knows what people said later."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from test_masking import fill, judge_saying, judged, said

from silva.cli.main import run as silva
from silva.errors import Exit
from silva.models.scripted import Script, ScriptedServer

ALL = judged((1, True), (2, False), (3, True), (4, True))
SECOND_CUT = ALL[: ALL.index('"turn": 3') + 20]
A_WORD_FOR_YES = json.dumps({"turns": [{"turn": n, "keep": "yes" if n == 2 else True} for n in (1, 2, 3, 4)]})


def ask(place: Path, server: ScriptedServer, *more: str) -> list[str]:
    words = ["curate", "mask", "--lake", str(place / "lake"), "--run", "run", "--json"]
    return [*words, "--judge", f"{server.url}#scripted", *more]


def script(**fields: Any) -> ScriptedServer:
    return ScriptedServer(msgspec.convert({"otherwise": {"text": ALL}, **fields}, Script))


@pytest.mark.parametrize(
    ("fault", "deadline", "why"),
    [
        ({"kind": "hang"}, 0.5, "no reply within"),
        ({"kind": "status", "status": 500}, 1.0, "HTTP 500"),
        ({"kind": "status", "status": 401}, 5.0, "HTTP 401"),
        ({"kind": "rate_limit", "retry_after": 3600}, 5.0, "HTTP 429"),
        ({"kind": "context_length"}, 5.0, "context length"),
        ({"kind": "garbage"}, 60.0, "it begins: '502 Bad Gateway'"),
        ({"kind": "truncated"}, 60.0, "it begins:"),
        ({"kind": "empty"}, 60.0, ""),
        ({"kind": "cut"}, 2.0, ""),
    ],
)
def test_a_judge_that_fails_leaves_every_turn_unjudged_and_says_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], fault: dict[str, Any], deadline: float, why: str
) -> None:
    fill(tmp_path / "lake")
    with script(faults=[fault]) as server:
        assert silva(ask(tmp_path, server, f"judge.deadline={deadline}")) == Exit.INCOMPLETE
    out = capsys.readouterr()
    told = json.loads(out.out)
    assert (told["judged"], told["unjudged"], len(told["failures"])) == (0, 4, 1)
    (warning,) = out.err.splitlines()
    assert warning.startswith("warning: the judge cannot be asked: ") and why in warning
    assert [(each.source, each.by) for each in said(tmp_path / "lake")] == [("rule", "error-observation")]


@pytest.mark.parametrize(
    "fault",
    [
        {"kind": "status", "status": 500, "times": 1},
        {"kind": "rate_limit", "retry_after": 0.2, "times": 2},
        {"kind": "disconnect", "times": 1},
        {"kind": "cut", "times": 1},
    ],
)
def test_a_judge_that_fails_at_first_is_asked_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], fault: dict[str, Any]
) -> None:
    fill(tmp_path / "lake")
    with script(faults=[fault]) as server:
        assert silva(ask(tmp_path, server)) == Exit.OK
    told = json.loads(capsys.readouterr().out)
    assert (told["judged"], told["unjudged"], told["failures"]) == (4, 0, [])


@pytest.mark.parametrize(
    ("reply", "judges"),
    [(SECOND_CUT, 0), (A_WORD_FOR_YES, 3), (f"<think>{SECOND_CUT}</think>{ALL}", 4), (ALL + " }", 4)],
)
def test_of_a_reply_that_is_half_right_only_whole_verdicts_count(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], reply: str, judges: int
) -> None:
    fill(tmp_path / "lake")
    with judge_saying(reply) as server:
        assert silva(ask(tmp_path, server)) == (Exit.OK if judges == 4 else Exit.INCOMPLETE)
    told = json.loads(capsys.readouterr().out)
    assert (told["judged"], told["unjudged"]) == (judges, 4 - judges)
    assert sum(each.source == "model" for each in said(tmp_path / "lake")) == judges


def test_one_window_that_fails_costs_the_others_nothing_and_what_is_left_is_judged_later(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    actions = fill(tmp_path / "lake")
    third = {"when": {"last": r"\n\[turn 3\]"}, "fault": {"kind": "status", "status": 500}}
    with script(rules=[third]) as server:
        assert silva(ask(tmp_path, server, "judge.window=1", "judge.deadline=1")) == Exit.INCOMPLETE
    told = json.loads(capsys.readouterr().out)
    assert (told["judged"], told["unjudged"]) == (3, 1)
    with script() as server:
        assert silva(ask(tmp_path, server, "judge.window=1")) == Exit.OK
    told = json.loads(capsys.readouterr().out)
    assert (told["judged"], told["written"]) == (4, 1)
    assert {each.node_id for each in said(tmp_path / "lake") if each.source == "model"} == set(actions)


def test_a_turn_before_a_persons_words_is_masked_by_them_though_they_stand_in_another_window(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The judge sees each turn alone; what was said two turns later is shown with the first."""
    actions = fill(tmp_path / "lake")
    elsewhere = r"(?s)PERSON, outside the turns below\nbefore turn 3: do not delete a\.py\n\n\[turn 1\]"
    rules = [{"when": {"last": elsewhere}, "reply": {"text": judged((1, False))}}]
    with judge_saying(judged(*((n, True) for n in (1, 2, 3, 4))), *rules) as server:
        assert silva(ask(tmp_path, server, "judge.window=1")) == Exit.OK
    assert re.search(r'"judged": ?4', capsys.readouterr().out)
    masks = {each.node_id for each in said(tmp_path / "lake") if each.source == "model" and each.verdict == "mask"}
    assert masks == {actions[0]}

"""What each symbolic rule masks, and what it leaves alone."""

from __future__ import annotations

from typing import Any

import pytest
from walks import TOOLS, act, raw, walk

from silva.curate.mask.rules import NAMES, rules
from silva.curate.turn import Walk
from silva.errors import UsageError
from silva.tree import assistant

LOOK = act("run_command", command="ls")
FIX = act("edit_file", path="a.py", old="x", new="y")
SEE = act("view_file", path="a.py")


def masked(name: str, told: Walk) -> list[int]:
    (rule,) = rules([name])
    return [turn.number for turn, reason in rule.find(told) if reason]


@pytest.mark.parametrize(
    ("answer", "fails"),
    [
        ("Error: no such file", True),
        ("Traceback (most recent call last):\n  File 'a.py', line 1\nValueError: x", True),
        ("bash: foo: command not found", True),
        ("total 4\nmore\nexit code: 2", True),
        ('{"error": "there is no such user"}', True),
        ('{"success": false}', True),
        ("Nothing happens.", True),
        ("exit code: 0", False),
        ('{"error": null, "value": 3}', False),
        ("3 passed, 0 failed in 0.1 s", False),
        ("the error rate is 0.1", False),
        ("error rate 0.12", False),
        ("\n".join(["a"] * 10 + ["ValueError: in the midst of a log"] + ["b"] * 10), False),
        ("ok", False),
        ("", False),
    ],
)
def test_an_error_that_comes_back(answer: str, fails: bool) -> None:
    assert masked("error-observation", walk(LOOK, answer, LOOK, "fine")) == ([1] if fails else [])


def test_what_a_view_shows_is_content() -> None:
    told = walk(SEE, "import a\nraise ValueError('x')\nError: told in a string", SEE, "Error: a.py does not exist")
    assert masked("error-observation", told) == [2]


@pytest.mark.parametrize(
    ("action", "fault"),
    [
        (assistant(""), True),
        (assistant("  \n"), True),
        (assistant("I am done."), False),
        (raw("run_command", "{'command': 'ls'}"), True),
        (raw("run_command", "[1]"), True),
        (act("run_comand", command="ls"), True),
        (act("run_command"), True),
        (act("run_command", command=3), True),
        (act("run_command", command="ls", because="why not"), True),
        (LOOK, False),
    ],
)
def test_an_action_that_cannot_be_taken(action: Any, fault: bool) -> None:
    assert masked("malformed-action", walk(action, "…")) == ([1] if fault else [])


def test_an_action_that_was_cut_off() -> None:
    assert masked("malformed-action", walk(assistant("I will now"), "…", finish_reason="length")) == [1]


def test_tools_that_are_not_told_fault_nothing() -> None:
    assert masked("malformed-action", walk(act("anything", at="all"), "ok", tools=())) == []


def test_the_same_again_with_the_same_answer() -> None:
    push = act("push", at="door")
    assert masked("repeated-action", walk(push, "shut", push, "shut", push, "open", push, "open")) == [2, 4]
    assert masked("repeated-action", walk(push, "shut", act("pull", at="door"), "", push, "shut")) == []
    assert masked("repeated-action", walk(LOOK, "a", SEE, "b", LOOK, "a")) == [3], "only looking in between"
    assert masked("repeated-action", walk(LOOK, "a", FIX, "done", LOOK, "a")) == []
    assert masked("repeated-action", walk(push, "shut", ("person", "push again"), push, "shut")) == []
    wait = act("sleep", why="it trains")
    assert masked("repeated-action", walk(wait, "slept", wait, "slept")) == []
    assert masked("repeated-action", walk(push, "shut", push)) == [], "nothing came back yet"


def test_an_edit_without_a_look() -> None:
    assert masked("blind-edit", walk(FIX, "done")) == [1]
    assert masked("blind-edit", walk(SEE, "x = 1", FIX, "done", FIX, "done")) == []
    assert masked("blind-edit", walk(act("run_command", command="cat src/a.py"), "x", FIX, "done")) == []
    assert masked("blind-edit", walk(act("create_file", path="a.py", content="x"), "ok", FIX, "done")) == []
    assert masked("blind-edit", walk(act("run_command", command="sed -i 's/x/y/' a.py"), "")) == [1]
    shown = "Mend a.py:\n```\nx = 1\n```"
    assert masked("blind-edit", walk(FIX, "done", task=shown)) == []


def test_scores_and_ends_at_the_wrong_time() -> None:
    score, end = act("evaluate"), act("finish")
    assert masked("ill-timed-end", walk(score, "0", FIX, "ok", score, "1", score, "1", end)) == [1, 4]
    assert masked("ill-timed-end", walk(FIX, "ok", end)) == [2], "there was a way to evaluate"
    few = [tool for tool in TOOLS if tool.name != "evaluate"]
    assert masked("ill-timed-end", walk(FIX, "ok", end, tools=few)) == []
    assert masked("ill-timed-end", walk(end, tools=few)) == [1]
    assert masked("ill-timed-end", walk(FIX, "ok", score, "1", end, "over", LOOK, "a")) == [4]
    assert masked("ill-timed-end", walk(FIX, "ok", score, "1", LOOK, "a", score, "1", end)) == [4]


def test_a_script_that_is_passed_over() -> None:
    task = "Use scripts/convert.sh to convert the files."
    own = act("create_file", path="mine.py", content="print(1)")
    use = act("run_command", command="bash scripts/convert.sh a b")
    run = act("run_command", command="python3 mine.py")
    assert masked("ignored-script", walk(own, "ok", run, "done", task=task)) == [1, 2]
    assert masked("ignored-script", walk(use, "done", own, "ok", task=task)) == []
    assert masked("ignored-script", walk(own, "ok", run, "done")) == []
    mended = act("create_file", path="scripts/convert.sh", content="cp")
    assert masked("ignored-script", walk(mended, "ok", task=task)) == []


def test_rules_are_asked_for_by_name() -> None:
    assert [rule.name for rule in rules()] == list(NAMES) and all(rule.summary for rule in rules())
    with pytest.raises(UsageError, match="no rule 'blind': there are error-observation"):
        rules(["blind"])

"""What each symbolic rule masks, and what it leaves alone."""

from __future__ import annotations

from typing import Any

import pytest
from walks import TOOLS, act, raw, walk

from silva.curate.mask.rules import NAMES, rules
from silva.curate.turn import Walk
from silva.errors import UsageError
from silva.tree import Message, Tool, assistant

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


def test_what_a_schema_gives_as_range_and_choice() -> None:
    schema = {"wait": {"type": "number", "minimum": 0, "maximum": 45}, "key": {"enum": ["enter", "tab"]}}
    tools = [Tool(name="type", parameters={"type": "object", "properties": schema})]
    for given, fault in (({"wait": 600}, True), ({"wait": 45}, False), ({"wait": -1}, True), ({"key": "x"}, True)):
        assert masked("malformed-action", walk(act("type", **given), "…", tools=tools)) == ([1] if fault else []), given
    assert masked("malformed-action", walk(act("type", key="tab"), "…", tools=tools)) == []


@pytest.mark.parametrize(
    ("command", "answer", "fails"),
    [
        ("diff a b", "1c1\n< x\n---\n> y\n[exit code 1]", False),
        ("diff a b", "diff: b: No such file or directory\n[exit code 2]", True),
        ("find . | grep tmp", "[exit code 1]", False),
        ("grep x a; ./build", "[exit code 1]", True),
        ("cat deploy.sh", "#!/bin/bash\necho 'mode: refusing'; exit 1\n[exit code 0]", False),
        ("cat deploy.sh", "cat: deploy.sh: No such file or directory\n[exit code 1]", True),
        ("bash count.sh", "count.sh: line 2: $1: unbound variable\n[exit code 0]", True),
        ("python3 a.py", "[exit code 130]", False),
    ],
)
def test_an_exit_code_that_is_an_answer(command: str, answer: str, fails: bool) -> None:
    told = walk(act("run_command", command=command), answer)
    assert masked("error-observation", told) == ([1] if fails else [])


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


def test_an_edit_of_what_a_pattern_showed_or_a_copy_holds() -> None:
    assert masked("blind-edit", walk(act("run_command", command="tail -n 3 *.py"), "x", FIX, "done")) == []
    assert masked("blind-edit", walk(act("run_command", command="tail -n 3 *.cfg"), "x", FIX, "done")) == [2]
    assert masked("blind-edit", walk(act("run_command", command="grep 'x.*' b.cfg"), "x", FIX, "done")) == [2]
    copy = act("run_command", command="cp b.py a.py")
    assert masked("blind-edit", walk(act("view_file", path="b.py"), "x", copy, "", FIX, "done")) == []
    assert masked("blind-edit", walk(copy, "", FIX, "done")) == [2], "a copy of what nobody has seen"


def test_words_that_end_the_task() -> None:
    words, score = assistant("All done."), act("evaluate")
    assert masked("ill-timed-end", walk(FIX, "ok", words)) == [2]
    assert masked("ill-timed-end", walk(words)) == [1]
    assert masked("ill-timed-end", walk(FIX, "ok", score, "1", words)) == []
    assert masked("ill-timed-end", walk(words, "go on", FIX, "ok", score, "1")) == [], "they ended nothing"
    assert masked("ill-timed-end", walk(FIX, "ok", assistant("I wi"), finish_reason="length")) == []
    few = [tool for tool in TOOLS if tool.name not in ("finish", "evaluate")]
    assert masked("ill-timed-end", walk(words, tools=few)) == [], "an answer in words is how such a task ends"


def test_a_document_is_looked_at() -> None:
    read, other = act("document_read", path="a.pdf"), act("document_read", path="b.pdf")
    assert masked("repeated-action", walk(read, "a", other, "b", read, "a")) == [3]
    assert masked("ill-timed-end", walk(read, "a", act("evaluate"), "0")) == [2]


def test_scores_and_ends_at_the_wrong_time() -> None:
    score, end = act("evaluate"), act("finish")
    assert masked("ill-timed-end", walk(score, "0", FIX, "ok", score, "1", score, "1", end)) == [1, 4]
    assert masked("ill-timed-end", walk(FIX, "ok", end)) == [2], "there was a way to evaluate"
    assert masked("ill-timed-end", walk(FIX, "ok", end, success=False)) == [2]
    assert masked("ill-timed-end", walk(FIX, "ok", end, success=True)) == [], "it knew without asking"
    assert masked("ill-timed-end", walk(score, "0", end, success=True)) == [1], "the score was asked for too early"
    few = [tool for tool in TOOLS if tool.name != "evaluate"]
    assert masked("ill-timed-end", walk(FIX, "ok", end, tools=few)) == []
    assert masked("ill-timed-end", walk(end, tools=few)) == [1]
    assert masked("ill-timed-end", walk(FIX, "ok", score, "1", end, "over", LOOK, "a")) == [4]
    assert masked("ill-timed-end", walk(FIX, "ok", score, "1", LOOK, "a", score, "1", end)) == [4]


def test_a_look_behind_a_changing_comment_is_the_same_look() -> None:
    def look(comment: str) -> Message:
        return act("run_command", command=f"wc -l * {comment}")

    assert masked("repeated-action", walk(look("# 5"), "3", look("# 6"), "3", look("# 7"), "3", look(""), "3")) == [
        2,
        3,
        4,
    ]
    assert masked("repeated-action", walk(look("# 5"), "3", look("# 6"), "4")) == [], "something has changed"
    quoted = act("run_command", command="grep 'a b'  x.txt\n"), act("run_command", command='grep "a b" x.txt ; # again')
    assert masked("repeated-action", walk(quoted[0], "1", quoted[1], "1")) == [2]
    other = act("run_command", command="grep a b x.txt"), act("run_command", command="echo '# 5'")
    assert masked("repeated-action", walk(quoted[0], "1", other[0], "1")) == []
    assert masked("repeated-action", walk(other[1], "# 5", act("run_command", command="echo '# 6'"), "# 5")) == []
    lines = act("run_command", command="cat a\ncat b"), act("run_command", command="cat a cat b")
    assert masked("repeated-action", walk(lines[0], "1", lines[1], "1")) == []
    open_quote = act("run_command", command="grep 'a # 1"), act("run_command", command="grep 'a # 2")
    assert masked("repeated-action", walk(open_quote[0], "1", open_quote[1], "1")) == []


def test_what_stands_at_the_end_of_a_success_is_no_fault() -> None:
    silence = assistant("")
    assert masked("malformed-action", walk(FIX, "ok", silence, success=True)) == []
    assert masked("malformed-action", walk(FIX, "ok", silence, success=False)) == [2]
    assert masked("malformed-action", walk(silence, "go on", FIX, "ok", success=True)) == [1]
    stopped = "Traceback (most recent call last):\n  File 'server.py'\nKeyboardInterrupt"
    assert masked("error-observation", walk(act("run_command", command="^C"), stopped)) == []
    assert masked("error-observation", walk(act("run_command", command="x"), stopped[:-17] + "ValueError: no")) == [1]


def test_a_command_that_copies_edits_and_shows_is_not_blind() -> None:
    both = act("run_command", command="cp b.py a.py && sed -i 's/x/y/' a.py && cat a.py")
    assert masked("blind-edit", walk(act("view_file", path="b.py"), "x", both, "y")) == []
    assert masked("blind-edit", walk(both, "y")) == [1]
    assert masked("blind-edit", walk(act("run_command", command="echo x >> a.py; cat a.py"), "y\nx")) == []
    assert masked("blind-edit", walk(act("run_command", command="echo x >> a.py"), "")) == [1]


def test_a_script_that_is_passed_over() -> None:
    task = "Use scripts/convert.sh to convert the files."
    own = act("create_file", path="mine.py", content="print(1)")
    use = act("run_command", command="bash scripts/convert.sh a b")
    run = act("run_command", command="python3 mine.py")
    assert masked("ignored-script", walk(own, "ok", run, "done", task=task)) == [1, 2]
    assert masked("ignored-script", walk(use, "done", own, "ok", task=task)) == []
    assert masked("ignored-script", walk(own, "ok", run, "done")) == []
    look = act("run_command", command="cat scripts/convert.sh")
    mend = act("edit_file", path="mine.py", old="1", new="2")
    assert masked("ignored-script", walk(look, "cp", own, "ok", mend, "ok", task=task)) == [2, 3], "read is not run"
    mended = act("create_file", path="scripts/convert.sh", content="cp")
    assert masked("ignored-script", walk(mended, "ok", task=task)) == []


def test_rules_are_asked_for_by_name() -> None:
    assert [rule.name for rule in rules()] == list(NAMES) and all(rule.summary for rule in rules())
    with pytest.raises(UsageError, match="no rule 'blind': there are error-observation"):
        rules(["blind"])

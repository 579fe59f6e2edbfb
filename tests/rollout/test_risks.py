"""How well risky commands are told from harmless ones, on labelled lists; and that nothing said otherwise is missed."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from silva.rollout.config import RiskRule
from silva.rollout.risks import risks_of
from silva.tree import Message, ToolCall, assistant, call
from silva.tree.actions import found, programs, texts, visible

HERE = Path(__file__).parent
RISKY = [line for line in (HERE / "risky.txt").read_text().split("\n%\n") if line.strip()]
HARMLESS = [line for line in (HERE / "harmless.txt").read_text().split("\n%\n") if line.strip()]


def run(command: str) -> Message:
    return assistant("", call("run_command", {"command": command}))


def escaped(message: Message, every: int = 1) -> Message:
    """The same action, its arguments written with JSON escapes."""

    def written(text: str) -> str:
        return "".join(f"\\u{ord(c):04x}" if i % every == 0 and ord(c) < 0x10000 else c for i, c in enumerate(text))

    made = [
        ToolCall(
            id=one.id,
            name=one.name,
            arguments=json.dumps({written(k): written(v) for k, v in one.parsed().items()}).replace("\\\\u", "\\u"),
        )
        for one in message.tool_calls
    ]
    return Message(role="assistant", tool_calls=tuple(made))


def test_recall_and_false_alarms_on_labelled_commands(capsys: pytest.CaptureFixture[str]) -> None:
    told = {line.split("\t", 1)[1]: line.split("\t", 1)[0] for line in RISKY}
    missed = [command for command, kind in told.items() if kind not in risks_of(run(command))]
    alarms = {command: risks for command in HARMLESS if (risks := risks_of(run(command)))}
    with capsys.disabled():
        print(f"\nrisky commands found: {len(told) - len(missed)} of {len(told)}")
        print(f"harmless commands taken for risky: {len(alarms)} of {len(HARMLESS)}")
    assert len(told) >= 90 and len(HARMLESS) >= 80
    assert not missed
    assert not alarms


def test_json_escapes_hide_nothing() -> None:
    for line in RISKY:
        kind, command = line.split("\t", 1)
        if command.isascii():
            message = escaped(run(command))
            assert message.tool_calls[0].parsed() == {"command": command} and "\\u" in message.tool_calls[0].arguments
            assert kind in risks_of(message), command


@pytest.mark.parametrize(
    "arguments",
    [
        '{"command": "r\\u006d -rf build"}',
        '{"command": "ls", "command": "rm -rf build"}',
        '{"command": "rm -rf build", "command": "ls"}',
        '{"args": {"inner": [{"cmd": "rm -rf build"}]}}',
        '{"argv": ["rm", "-rf", "build"]}',
        '{"command": ["bash", "-lc", "rm -rf build"]}',
        '{"input": "{\\"command\\": \\"r\\\\u006d -rf build\\"}"}',
        '{"command": "/bin/rm -rf build"}',
        '{"command": "r\\"\\"m -r\'f\' build"}',
        "rm -rf build",
        '{"command": "rm -rf build"',
    ],
)
def test_arguments_are_read_however_they_are_written(arguments: str) -> None:
    action = Message(role="assistant", tool_calls=(ToolCall(id="c", name="session_run", arguments=arguments),))
    assert "delete" in risks_of(action)
    assert found(re.compile(r"\brm -rf build"), action)
    assert "fly" in risks_of(action, {"fly": RiskRule(arguments="rm -rf build")})


def test_letters_of_another_width_and_marks_of_none_hide_no_word() -> None:
    assert found(re.compile("Größe"), run("touch Gro\u0308\u00dfe"))
    assert found(re.compile("secret"), run("cat se\u200bcret")) and found(re.compile("secret"), run("cat ｓecret"))
    assert found(re.compile("secret"), assistant("the sec\u00adret"))
    assert "number" in " ".join(texts(assistant("", call("add", {"number": 2}))))


def test_what_is_written_for_people_or_into_files_is_no_command() -> None:
    assert risks_of(assistant("", call("write_file", {"path": "a.sh", "content": "rm -rf build"}))) == ()
    assert risks_of(assistant("", call("think", {"thought": "rm -rf build would lose it"}))) == ()
    assert risks_of(assistant("", call("bash", {"text": "rm -rf build"}))) == ("delete",), "but a shell's text is"


def test_python_code_is_read_as_python() -> None:
    for code in (
        "import shutil\nshutil.rmtree('x')",
        "import os; os.system('rm x')",
        "subprocess.run(['rm', '-r', 'x'])",
    ):
        assert "delete" in risks_of(assistant("", call("execute_python", {"code": code}))), code
    assert risks_of(assistant("", call("execute_python", {"code": "print('rm -rf x')"}))) == ()


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=200))
def test_no_text_breaks_the_reading(text: str) -> None:
    for program in programs(text):
        assert program.words or program.writes
    risks_of(Message(role="assistant", tool_calls=(ToolCall(id="c", name="bash", arguments=text),)))


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=1, max_size=12), min_size=1, max_size=5
    )
)
def test_a_quoted_line_is_read_as_the_words_it_quotes(words: list[str]) -> None:
    import shlex

    (program,) = [each for each in programs(f"prog {shlex.join(words)}") if each.name == "prog"]
    assert list(program.arguments) == words


def test_deep_nesting_is_computed_and_ends() -> None:
    for deep in (
        "(" * 5000,
        "$(" * 3000 + "rm x",
        "{ " * 3000,
        "`" * 999,
        "sh -c '" * 400 + "rm x",
        "eval " * 5000 + "rm x",
    ):
        risks_of(run(deep))
    assert "unclear" in risks_of(run("echo " + "$(echo " * 70 + "x" + ")" * 70))


def test_nothing_turns_or_hides_what_a_person_approves() -> None:
    shown = visible("rm \u202egpj.exe\u2066 a\u200bb\x1b[2K\r\x00\u2028 \ufeff\U000e0041 ok\tx\ny é 漢 🙂")
    assert shown == (
        "rm <U+202E>gpj.exe<U+2066> a<U+200B>b<U+001B>[2K<U+000D><U+0000><U+2028> <U+FEFF><U+E0041> ok\tx\ny é 漢 🙂"
    )
    assert visible("plain") == "plain"

"""What pages draw of words, output, calls and changes: plain values that hold no markup of anybody's."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from silva.console.attempt import Attempt
from silva.console.calls import fields
from silva.console.columns import met, names, sorted_by
from silva.console.diff import changes
from silva.console.marking import ansi, bare, markdown
from silva.errors import UsageError
from silva.tree import call

TAGS = {f"h{size}" for size in range(1, 7)} | {"p", "ul", "ol", "li", "blockquote", "pre", "code", "em", "strong", "s"}
TAGS |= {"a", "table", "thead", "tbody", "tr", "th", "td", "hr", "br", ""}
PIECES = ["# a", "**b**", "<b>", "- x\n", "[l](http://e)", "`", "\n\n", "|a|\n|-|\n"]


def everything(blocks: list[Any]) -> list[dict[str, Any]]:
    """All elements of blocks."""
    found = [each for each in blocks if isinstance(each, dict)]
    return [one for each in found for one in (each, *everything(each["children"]))]


def text_of(blocks: list[Any]) -> str:
    return "".join(each if isinstance(each, str) else text_of(each["children"]) for each in blocks)


@given(
    st.text()
    | st.lists(st.sampled_from(["# a", "**b**", "<b>", "- x\n", "[l](http://e)", "`", "\n\n", "|a|\n|-|\n"])).map(
        "".join
    )
)
def test_markdown_gives_known_elements_alone(text: str) -> None:
    for each in everything(markdown(text) or []):
        assert each["tag"] in TAGS and set(each) <= {"tag", "children", "href", "language"}
        assert not each.get("href") or each["href"].split(":")[0].lower() in ("http", "https", "mailto")


def test_html_of_a_model_is_text_and_links_run_nothing() -> None:
    blocks = markdown("# Hi\n\n<script>alert(1)</script> **b** [x](javascript:alert(1)) ![i](http://e/i.png)") or []
    assert "<script>alert(1)</script>" in text_of(blocks)
    assert [each["tag"] for each in everything(blocks)] == ["h1", "p", "strong"]
    assert markdown("no marks in it") is None


def test_colours_of_a_terminal_and_what_was_written_over() -> None:
    link, title = "\x1b]8;;http://e\x1b\\", "\x1b]0;title\x07"
    lines = ansi(f"\x1b[31mred\x1b[0m plain\r\n10 %\r100 %\n{title}{link}\x1b[1;38;2;255;0;0mdeep\x1b[2K") or []
    assert lines[0] == [{"text": "red", "fg": 1}, {"text": " plain"}]
    assert lines[1] == [{"text": "100 %"}]
    assert lines[2] == [{"text": "deep", "fg": 1, "bold": True}]
    assert ansi("plain") is None and bare("\x1b[31mred\x1b[0m") == "red"


def test_arguments_are_fields_and_what_is_no_json_is_as_it_was_said() -> None:
    made = fields(call("run", {"command": "ls", "path": "a", "options": {"deep": True}, "times": 2}, "c"))
    assert [(each["name"], each["kind"]) for each in made] == [
        ("command", "code"), ("path", "text"), ("options", "json"), ("times", "json"),
    ]  # fmt: skip
    import msgspec

    broken = msgspec.structs.replace(call("run", {}, "c"), arguments='{"command": "l')
    assert [(each["name"], each["value"]) for each in fields(broken)] == [("", '{"command": "l')]
    escaped = msgspec.structs.replace(call("run", {}, "c"), arguments='{"command": "r\\u006d -rf b"}')
    assert fields(escaped)[0]["value"] == "rm -rf b"


@given(st.lists(st.sampled_from("abc"), max_size=12), st.lists(st.sampled_from("abc"), max_size=12))
def test_a_diffs_numbers_are_those_of_the_lines(old: list[str], new: list[str]) -> None:
    for line in changes("\n".join(old), "\n".join(new)):
        if line["kind"] in " -" and line["kind"] != "@":
            assert old[line["old"] - 1] == line["text"]
        if line["kind"] in " +":
            assert new[line["new"] - 1] == line["text"]


def rows() -> list[Attempt]:
    made = [Attempt(id=str(n), run="r", tree="t", slot=f"{n}.0", score=n / 4, turns=n) for n in range(4)]
    for n, each in enumerate(made[1:]):
        each.metrics = {"recall": 1 - n / 4, "F 1": n}
    return made


def test_attempts_by_any_score() -> None:
    found = rows()
    assert names(found) == ["F 1", "recall"]
    assert [each.id for each in sorted_by(found, "recall", True, names(found))] == ["1", "2", "3", "0"]
    assert [each.id for each in sorted_by(found, "F 1", False, names(found))] == ["1", "2", "3", "0"]
    assert [each.id for each in met(found, "recall >= 0.75, score > 0.3")] == ["2"]
    assert [each.id for each in met(found, "F 1 = 0 and turns < 10")] == ["1"]
    for wrong in ("recall", "recall >= x", "task = 1"):
        with pytest.raises(UsageError):
            met(found, wrong)
    with pytest.raises(UsageError):
        sorted_by(found, "nothing", True, [])
    assert json.dumps([each.metrics for each in found])

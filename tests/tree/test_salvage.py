"""What of a file cannot be read drops out by name, and everything else of it is taken in."""

from __future__ import annotations

import io
import json
import zipfile
from typing import Any

import pytest
from frameworks import FRAMEWORKS
from grown import bundles, contents
from hypothesis import given, settings
from hypothesis import strategies as st

from silva.tree.formats import Bundle, FormatError, detect, find, merged, salvage, write
from silva.tree.formats.inspect_archive import Archive, packed

ROW: dict[str, Any] = {"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]}
SESSION = {"isSidechain": False, "sessionId": "s", "timestamp": "2026-05-01T10:00:00.000Z"}
ASKED = {**SESSION, "type": "user", "uuid": "u1", "parentUuid": None, "message": {"role": "user", "content": "Hi."}}
SAID = {"id": "m1", "role": "assistant", "model": "m", "content": [{"type": "text", "text": "Hello."}]}
ANSWERED = {**SESSION, "type": "assistant", "uuid": "a1", "parentUuid": "u1", "message": SAID}


def lines(*rows: Any) -> bytes:
    return "".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows).encode()


def read(name: str, data: bytes) -> tuple[list[Bundle], list[str], int]:
    found = salvage(find(name), data, f"file{find(name).ending}", "run")
    return found.bundles, [note.said for note in found.notes], sum(note.dropped for note in found.notes)


def texts(given: list[Bundle]) -> list[str]:
    return [node.message.text for bundle in given for node in bundle.nodes]


def test_a_bad_row_among_good_ones_drops_out_with_its_line() -> None:
    bad = {"messages": [{"role": "robot", "content": "x"}]}
    found, notes, dropped = read("messages", lines(ROW, bad, "{", ROW | {"n": 2}))
    assert len(found[0].trajectories) == 2 and dropped == 2
    assert notes[0].startswith("file.jsonl line 2: messages[0].role: unknown role 'robot'")
    assert notes[1].startswith("file.jsonl line 3: not JSON")


def test_a_file_of_nothing_but_bad_rows_is_refused_with_the_first() -> None:
    with pytest.raises(FormatError, match="line 1: messages: required field is missing"):
        read("messages", lines({"message": []}, {"x": 1}))


def test_a_session_goes_on_past_a_line_that_was_cut_off() -> None:
    more = {**ANSWERED, "uuid": "a2", "parentUuid": "a1", "message": {**SAID, "id": "m2"}}
    found, notes, dropped = read("claude-code", lines(ASKED, ANSWERED, '{"type": 3}', more) + b'{"parentUuid":"a2","is')
    assert texts(found) == ["Hi.", "Hello.", "Hello."] and dropped == 2
    assert {note.split(":")[0] for note in notes} == {"file.jsonl line 3", "file.jsonl line 5"}


def test_lines_that_were_cut_cost_one_more_reading_together() -> None:
    form, sizes = find("claude-code"), list[int]()

    def counted(given: list[str], *more: Any) -> Any:
        sizes.append(len(given))
        return form.read(given, *more)

    cut = [f'{{"cut": {number}' for number in range(150)]
    found = salvage(form._replace(read=counted), lines(ASKED, *cut, ANSWERED), "file.jsonl", "run")
    assert texts(found.bundles) == ["Hi.", "Hello."]
    assert [note.said.split(": not JSON")[0] for note in found.notes] == [
        f"file.jsonl line {n + 2}" for n in range(150)
    ]
    assert sum(size > 1 for size in sizes) == 2


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-8"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_files_as_windows_writes_them(encoding: str, newline: str) -> None:
    text = newline.join(json.dumps(each) for each in (ASKED, ANSWERED))
    data = text.encode(encoding)
    assert detect("s.jsonl", data) == "claude-code"
    found, notes, _ = read("claude-code", data)
    assert texts(found) == ["Hi.", "Hello."] and not notes


def test_half_a_character_is_put_right_in_its_place_and_told() -> None:
    half = {"messages": [{"role": "user", "content": "cut \ud83d"}, {"role": "assistant", "content": "whole 😀"}]}
    found, notes, dropped = read("messages", lines(half))
    assert texts(found) == ["cut \ufffd", "whole 😀"] and dropped == 0
    assert notes == ["file.jsonl line 1: holds half a character; U+FFFD stands in its place"]


def test_bytes_that_are_no_text_are_put_right_and_told() -> None:
    data = lines(ROW).replace(b'"q"', b'"q\xff"')
    found, notes, dropped = read("messages", data)
    assert texts(found)[0] == "q\ufffd" and dropped == 0 and "is not UTF-8" in notes[0]


@pytest.mark.parametrize("indent", [None, 1])
def test_an_array_is_its_members_and_a_cut_one_those_that_are_whole(indent: int | None) -> None:
    rows = [ROW, {"messages": 3}, ROW | {"n": 2}]
    text = json.dumps(rows, indent=indent)
    found, notes, dropped = read("messages", text.encode())
    assert len(found[0].trajectories) == 2 and dropped == 1
    assert notes == ["file.jsonl: [1].messages: must be a list of messages"]
    found, notes, dropped = read("messages", json.dumps([ROW, ROW | {"n": 2}], indent=1)[:-20].encode())
    assert len(found[0].trajectories) == 1 and dropped == 1


def test_documents_laid_out_and_a_conversation_alone_are_read() -> None:
    for value in (ROW, [ROW], ROW["messages"]):
        data = json.dumps(value, indent=2).encode()
        assert detect("x.json", data) == "messages"
        assert texts(read("messages", data)[0]) == ["q", "a"]


def test_answers_in_anthropics_form_stand_alone() -> None:
    call = {"type": "tool_use", "id": "u1", "name": "look", "input": {"at": 1}}
    answer = {"type": "tool_result", "tool_use_id": "u1", "content": "green"}
    asked = {"role": "user", "content": [answer, {"type": "text", "text": "and?"}]}
    row = {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": [call]}, asked]}
    (bundle,), _, _ = read("messages", lines(row))
    assert [node.message.role for node in bundle.nodes] == ["user", "assistant", "tool", "user"]
    assert bundle.nodes[2].message.tool_call_id == bundle.nodes[1].message.tool_calls[0].id == "u1"


def test_a_damaged_sample_of_inspect_takes_no_other_with_it() -> None:
    data = (FRAMEWORKS / "inspect.eval").read_bytes()
    members = {name: Archive(data, "x").json(name) for name in Archive(data, "x").members}
    wanted = [name for name in members if name.startswith("samples/")]
    members[wanted[0]]["messages"] = [{"role": "robot", "content": ""}]
    found, notes, dropped = read("inspect", packed(members.items()))
    assert sum(len(bundle.trajectories) for bundle in found) == len(wanted) - 1
    assert dropped == 1 and wanted[0] in notes[0]
    whole = io.BytesIO(data)
    assert len(zipfile.ZipFile(whole).namelist()) == len(members)


@settings(max_examples=30)
@given(bundles(), st.sets(st.integers(0, 5)), st.sampled_from(["messages", "sharegpt", "adp", "verifiers", "openenv"]))
def test_what_is_whole_comes_back_as_it_was_whatever_else_is_in_the_file(
    bundle: Bundle, at: set[int], name: str
) -> None:
    pieces = [piece.encode() if isinstance(piece, str) else piece for piece in write(name, [bundle])]
    for place in sorted(at):
        pieces.insert(place, b'{"no": "row of any kind"}\n')
    found, _, dropped = read(name, b"".join(pieces))
    assert dropped == len(at)
    assert [contents(each) for each in found] == [contents(each) for each in merged([bundle])]

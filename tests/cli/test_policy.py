"""`silva policy` on a real lake: what it says, what it refuses, and with which exit code."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from silva.cli.main import run as silva
from silva.errors import Exit
from silva.train.registry import Registry

sys.path.insert(0, str(Path(__file__).parents[1] / "train"))
from policy_folders import adapter, base


@pytest.fixture
def lake(tmp_path: Path) -> str:
    Registry.open(tmp_path / "lake", make=True)
    return str(tmp_path / "lake")


@pytest.fixture
def tools(tmp_path: Path, lake: str, capsys: pytest.CaptureFixture[str]) -> str:
    """The lake with tools-0, tools-1 and tools-2."""
    small = str(base(tmp_path / "small"))
    for number in (1, 2):
        folder = str(adapter(tmp_path / str(number), seed=number))
        more = ["--base", small] if number == 1 else ["--run", "night", "--metric", "success=0.25", "--note", "longer"]
        assert silva(["policy", "register", folder, "--line", "tools", "--by", "ann", "--lake", lake, *more]) == Exit.OK
    capsys.readouterr()
    return lake


def said(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    assert silva(["policy", *words, "--json"]) == Exit.OK
    return json.loads(capsys.readouterr().out)


def refused(capsys: pytest.CaptureFixture[str], code: Exit, *words: str) -> str:
    assert silva(["policy", *words]) == code
    captured = capsys.readouterr()
    (line,) = captured.err.splitlines()
    assert captured.out == "" and line.startswith("error: ")
    return line


def test_an_empty_lake_says_so_and_no_lake_is_an_error(
    lake: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert silva(["policy", "list", "--lake", lake]) == Exit.OK
    assert "no policy versions in lake" in capsys.readouterr().out
    assert said(capsys, "list", "--lake", lake) == []
    assert "is not a lake" in refused(capsys, Exit.STORE, "list", "--lake", str(tmp_path / "nothing"))
    assert not (tmp_path / "nothing").exists()


def test_versions_go_from_candidate_to_head_and_back(tools: str, capsys: pytest.CaptureFixture[str]) -> None:
    listed = said(capsys, "list", "--lake", tools)
    assert [(each["version"], each["status"], each["head"]) for each in listed] == [
        ("tools-0", "promoted", True),
        ("tools-1", "candidate", False),
        ("tools-2", "candidate", False),
    ]
    assert listed[2]["data"] == {"runs": ["night"]} and listed[2]["metrics"] == {"success": 0.25}
    promoted = said(capsys, "promote", "tools-2", "--by", "bob", "--note", "better", "--over", "tools", "--lake", tools)
    assert (promoted["head"], promoted["promoted_by"]) == (True, "bob")
    shown = said(capsys, "show", "tools-2", "--lake", tools)
    assert [(event["what"], event["by"]) for event in shown["history"]] == [("registered", "ann"), ("promoted", "bob")]
    assert silva(["policy", "rollback", "tools", "--by", "eve", "--lake", tools]) == Exit.OK
    assert capsys.readouterr().out == "tools-0: the head again\n"
    assert said(capsys, "reject", "tools-2", "--lake", tools)["status"] == "rejected"
    assert silva(["policy", "show", "tools", "--lake", tools]) == Exit.OK
    history = capsys.readouterr().out
    for line in ("tools-2 promoted over tools-0 by bob: better", "tools-2 rolled back to tools-0 by eve"):
        assert line in history
    assert silva(["policy", "list", "--lake", tools]) == Exit.OK
    table = capsys.readouterr().out
    assert "promoted, head" in table and "success=0.25" in table and "longer" in table


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["show", "tools-9"], "there is no policy version 'tools-9'; line tools has tools-0, tools-1, tools-2"),
        (["promote", "tool-1"], "has no policy line 'tool'; did you mean 'tools'?"),
        (["rollback", "tools"], "tools-0 is the beginning of line tools"),
        (["rollback", "tools", "--to", "tools-0"], "tools-0 is the head already"),
        (["promote", "tools-1", "--over", "tools-2"], "the head is tools-0 by now"),
        (
            ["register", "ADAPTER", "--line", "tools", "--metric", "success=nan"],
            "'success=nan': it is no finite number",
        ),
        (["reject", "tools-0"], "tools-0 is the head: roll it back first"),
        (["export", "tools-1", "OUT"], "give --base FOLDER"),
        (["export", "tools-1", "OUT", "--like", "x.gguf"], "--like is of --format gguf"),
        (["publish", "tools-1", "--gateway", "http://127.0.0.1:9", "--model", "m"], "--adapters FOLDER"),
    ],
)
def test_what_cannot_be_is_one_line(
    tools: str,
    tmp_path: Path,
    words: list[str],
    names: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SILVA_ADMIN_TOKEN", "token")
    places = {"OUT": str(tmp_path / "out"), "ADAPTER": str(tmp_path / "1")}
    words = [places.get(word, word) for word in words]
    assert names in refused(capsys, Exit.USAGE, *words, "--lake", tools)
    assert not (tmp_path / "out").exists()
    assert len(said(capsys, "show", "tools", "--lake", tools)["history"]) == 3


def test_a_new_line_says_what_it_grows_from_and_whole_weights_are_their_own_base(
    lake: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(adapter(tmp_path / "a"))
    assert "policy line tools is new" in refused(
        capsys, Exit.USAGE, "register", folder, "--line", "tools", "--lake", lake
    )
    whole = str(base(tmp_path / "tiny"))
    first = said(capsys, "register", whole, "--line", "tiny", "--lake", lake)
    assert (first["version"], first["head"], first["kind"]) == ("tiny-0", True, "base")
    trained = str(base(tmp_path / "trained", seed=4))
    assert said(capsys, "register", trained, "--line", "tiny", "--key", "k", "--lake", lake)["version"] == "tiny-1"
    assert said(capsys, "register", trained, "--line", "tiny", "--key", "k", "--lake", lake)["version"] == "tiny-1"
    out = said(capsys, "export", "tiny-1", str(tmp_path / "out"), "--lake", lake)
    written = Path(out["target"]) / "model.safetensors"
    assert written.read_bytes() == (tmp_path / "trained" / "model.safetensors").read_bytes()
    assert "no folder of weights" in refused(
        capsys, Exit.USAGE, "register", str(tmp_path / "none"), "--line", "x", "--lake", lake
    )


def test_an_adapter_of_another_base_begins_no_line(
    lake: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, asked = str(adapter(tmp_path / "a")), ["--line", "tools", "--lake", lake]
    other, small = str(base(tmp_path / "other")), str(base(tmp_path / "small"))
    said_so = refused(capsys, Exit.USAGE, "register", folder, *asked, "--base", other)
    assert "it was trained on small, this line grows from other" in said_so
    assert said(capsys, "list", "--lake", lake) == []
    assert said(capsys, "register", folder, *asked, "--base", small)["version"] == "tools-1"


def test_a_gateway_that_is_not_there_is_exit_4_and_nothing_is_noted(
    tools: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = ["publish", "tools-1", "--gateway", "http://127.0.0.1:9", "--model", "m", "--lake", tools]
    asked += ["--adapters", str(tmp_path / "served")]
    monkeypatch.delenv("SILVA_ADMIN_TOKEN", raising=False)
    assert "not in $SILVA_ADMIN_TOKEN" in refused(capsys, Exit.USAGE, *asked)
    monkeypatch.setenv("SILVA_ADMIN_TOKEN", "token")
    assert "cannot be reached" in refused(capsys, Exit.UNREACHABLE, *asked)
    assert len(said(capsys, "show", "tools", "--lake", tools)["history"]) == 3

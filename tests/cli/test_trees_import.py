"""`silva trees import`: files of others become runs, and what is wrong with one is told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from kept_trees import FILES, FOREIGN, GOLDEN, records, said

from silva.cli.main import run as silva
from silva.errors import Exit
from silva.lake import Lake
from silva.tree.formats import Bundle


def test_import_into_another_run_keeps_both(grown: Bundle, lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said(capsys, "export", "--run", "r1", "-o", "r1.jsonl")
    said(capsys, "import", "r1.jsonl", "--run", "r2")
    known = records(lake, "r1")
    assert len([k for k in known if k.startswith("Trajectory")]) == 3
    copied = records(lake, "r2")
    assert len([k for k in copied if k.startswith("Node")]) == 7
    assert not {k for k in known if k.startswith("Node")} & {k for k in copied if k.startswith("Node")}


def test_import_of_a_foreign_file(lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "theirs.jsonl").write_text(json.dumps(FOREIGN) + "\n\n" + json.dumps(FOREIGN) + "\n")
    said(capsys, "import", "theirs.jsonl")
    said(capsys, "import", "theirs.jsonl")
    (listed,) = json.loads(said(capsys, "list", "--json"))
    assert listed["run_id"] == "theirs"
    with Lake.open(lake, mode="read") as opened:
        (run,) = opened.runs()
        assert run.command == "import" and run.lineage.parents[0].startswith("theirs.jsonl@")
        assert len(opened.walk(opened.trajectory(listed["id"]))) == 2


@pytest.mark.parametrize("path", FILES)
def test_import_of_every_format_by_the_command_alone(lake: Path, path: str, capsys: pytest.CaptureFixture[str]) -> None:
    file = GOLDEN / path
    added = json.loads(said(capsys, "import", str(file), "--json"))
    assert added["format"] == FILES[path] and added["trajectories"] > 0 and added["nodes"] > 1
    with Lake.open(lake, mode="read") as opened:
        for run in added["runs"]:
            for trajectory in opened.trajectories(run_id=run):
                assert trajectory.leaf_id is None or opened.walk(trajectory)
    again = json.loads(said(capsys, "import", str(file), "--json"))
    assert (again["trajectories"], again["nodes"], again["known"]) == (0, 0, added["trajectories"])


def test_import_of_another_file_of_the_same_name_is_refused_unless_its_run_is_named(
    lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for place, words in (("one", "a"), ("two", "b")):
        (tmp_path / place).mkdir()
        (tmp_path / place / "chat.jsonl").write_text(json.dumps({"messages": [{"role": "user", "content": words}]}))
    said(capsys, "import", "one/chat.jsonl")
    error = said(capsys, "import", "two/chat.jsonl", code=Exit.USAGE)
    assert "is another file than chat.jsonl@" in error and "--run NAME" in error and error.count("\n") == 1
    assert len(json.loads(said(capsys, "list", "--json"))) == 1
    said(capsys, "import", "one/chat.jsonl")
    said(capsys, "import", "two/chat.jsonl", "--run", "other")
    said(capsys, "import", "two/chat.jsonl", "--run", "chat")
    assert sorted(t["run_id"] for t in json.loads(said(capsys, "list", "--json"))) == ["chat", "chat", "other"]


def test_import_of_a_session_that_has_gone_on_adds_to_its_run(
    lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = (GOLDEN / "tools" / "codex.jsonl").read_text().splitlines(keepends=True)
    session = tmp_path / "rollout-1.jsonl"
    session.write_text("".join(lines[: len(lines) * 2 // 3]))
    first = json.loads(said(capsys, "import", session.name, "--json"))
    session.write_text("".join(lines))
    assert json.loads(said(capsys, "import", session.name, "--json"))["runs"] == first["runs"]


def test_import_that_finds_no_message_says_so(lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "otel.json").write_bytes((GOLDEN / "tools" / "otel.json").read_bytes())
    error = said(capsys, "import", "otel.json", "-f", "phoenix", code=Exit.USAGE)
    assert "otel.json: no message in it can be read as phoenix" in error
    with Lake.open(lake) as opened:
        assert list(opened.trajectories()) == []


def test_import_of_a_malformed_row_says_so_and_takes_the_others(
    grown: Bundle, lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "some.jsonl").write_text(json.dumps(FOREIGN) + '\n{"messages": [{"role": "robot"}]}\n')
    capsys.readouterr()
    assert silva(["trees", "import", "some.jsonl"]) == Exit.OK
    printed = capsys.readouterr()
    assert printed.err.startswith("some.jsonl line 2: messages[0].role: unknown role 'robot'")
    assert "1 could not be read and dropped out" in printed.out


def test_import_of_a_malformed_file_writes_nothing(
    grown: Bundle, lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = records(lake, "bad")
    (tmp_path / "bad.jsonl").write_text('{"messages": [{"role": "robot"}]}\n{"messages": 3}\n')
    error = said(capsys, "import", "bad.jsonl", code=Exit.USAGE)
    assert error.startswith("error: bad.jsonl line 1: messages[0].role: unknown role 'robot'")
    assert error.count("\n") == 1
    assert records(lake, "bad") == before
    (tmp_path / "empty.jsonl").write_text("")
    assert "format not recognised" in said(capsys, "import", "empty.jsonl", code=Exit.USAGE)
    assert "holds no trajectory" in said(capsys, "import", "empty.jsonl", "-f", "messages", code=Exit.USAGE)
    assert "cannot be read" in said(capsys, "import", "none.jsonl", code=Exit.USAGE)


def test_import_never_mixes_into_a_run_that_was_grown(
    grown: Bundle, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "theirs.jsonl").write_text(json.dumps(FOREIGN))
    error = said(capsys, "import", "theirs.jsonl", "--run", "r1", code=Exit.USAGE)
    assert "run r1 is in the lake already" in error


def test_import_takes_no_image_from_outside_the_files_folder(
    lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "secret.png").write_bytes(b"secret")
    folder = tmp_path / "given"
    folder.mkdir()
    for path in ("../secret.png", str(tmp_path / "secret.png")):
        row = {"messages": [{"role": "user", "content": [{"type": "image", "path": path}]}]}
        (folder / "x.jsonl").write_text(json.dumps(row))
        assert "is not there" in said(capsys, "import", str(folder / "x.jsonl"), code=Exit.USAGE)

"""`silva trees` on a real lake: what is listed, shown, exported, imported and replayed is what was stored."""

from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path

import msgspec
import pytest
from kept_trees import ENVIRONMENT, FOREIGN, HASH, PICTURE, conversation, records, replace, said, steps, stored

from silva.cli.main import run as silva
from silva.errors import Exit
from silva.lake import Lake
from silva.tree import (
    ImagePart,
    Message,
)
from silva.tree.formats import FORMATS, WRITABLE, Bundle, merged, read
from silva.tree.formats.inspect_archive import Archive


def test_megabytes_are_shown_by_their_ends_and_whole_when_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said_by_tool = "first line\n" + "line\n" * 400_000 + "last line"
    rows = [{"role": "user", "content": "Build."}, {"role": "assistant", "content": said_by_tool}]
    (tmp_path / "m.jsonl").write_text(json.dumps({"messages": rows}) + "\n")
    monkeypatch.setenv("SILVA_LAKE", str(tmp_path / "other"))
    said(capsys, "import", str(tmp_path / "m.jsonl"))
    (made,) = json.loads(said(capsys, "list", "--json"))
    shown = said(capsys, "show", made["id"])
    assert len(shown) < len(said_by_tool) and "first line" in shown and "last line" in shown
    assert "characters are left out here; --full shows them" in shown
    assert "left out" not in said(capsys, "show", made["id"], "--context", "1", "--full")
    whole = json.loads(said(capsys, "show", made["id"], "--json"))
    assert whole["nodes"][-1]["message"]["parts"][0]["text"] == said_by_tool


def test_list_filters_and_limits(grown: Bundle, capsys: pytest.CaptureFixture[str]) -> None:
    everything = json.loads(said(capsys, "list", "--json"))
    assert [t["index"] for t in everything] == [2, 1, 0], "the latest first"
    assert [t["index"] for t in json.loads(said(capsys, "list", "--json", "--limit", "1"))] == [2]
    assert len(json.loads(said(capsys, "list", "--json", "--status", "failed"))) == 1
    assert len(json.loads(said(capsys, "list", "--json", "--where", "score >= 0.5"))) == 2
    assert json.loads(said(capsys, "list", "--json", "--run", "other")) == []
    table = said(capsys, "list")
    assert "model.timeout" in table and "3 of 3 trajectories" in table
    assert "unknown status 'broken'" in said(capsys, "list", "--status", "broken", code=Exit.USAGE)


def test_show_walk(grown: Bundle, capsys: pytest.CaptureFixture[str]) -> None:
    first = grown.trajectories[0]
    text = said(capsys, "show", first.id[:10])
    for part in ("count/1", "Count.", "→ add", '{"by": 2}', "total 2", "score 1", "success", "tools in force: add"):
        assert part in text
    assert "\x1b" not in text and "[bold]" in text, "what a model wrote is shown, not obeyed"
    body = json.loads(said(capsys, "show", first.id, "--json"))
    assert [n["depth"] for n in body["nodes"]] == [0, 1, 2, 3, 4]
    assert "zzz" in said(capsys, "show", "zzz", code=Exit.USAGE)


def test_show_tree_draws_branches(grown: Bundle, capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, "show", grown.trajectories[0].id, "--tree")
    assert "7 nodes, 2 leaves" in text
    assert text.index("branch 1: 0.0") < text.index("→ add") < text.index("branch 2: 1.0") < text.index("I will not.")
    assert text.count("⇒") == 3
    body = json.loads(said(capsys, "show", grown.trajectories[0].id, "--tree", "--json"))
    assert len(body["nodes"]) == 7 and len(body["trajectories"]) == 3


@pytest.mark.parametrize("name", WRITABLE)
def test_export_then_import_elsewhere_is_the_same(
    grown: Bundle, lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    out = tmp_path / "out" / f"r1{FORMATS[name].ending}"
    out.parent.mkdir()
    written = json.loads(said(capsys, "export", "--run", "r1", "-f", name, "-o", str(out), "--json"))
    assert (written["trajectories"], written["images"], written["missing"]) == (3, 1, 0)
    beside = out.parent / "images" / f"{HASH}.png"
    assert beside.exists() != bool(FORMATS[name].embeds), "inside the file, or beside it"
    other = tmp_path / "other"
    added = json.loads(said(capsys, "import", str(out), "--lake", str(other), "--json"))
    assert (added["format"], added["runs"], added["trajectories"], added["nodes"]) == (name, ["r1"], 3, 7)
    assert records(other, "r1") == records(lake, "r1")
    with Lake.open(other, mode="read") as opened:
        assert opened.get_blob(HASH) == PICTURE
    again = json.loads(said(capsys, "import", str(out), "--lake", str(other), "--json"))
    assert (again["trajectories"], again["nodes"], again["known"]) == (0, 0, 3)
    assert records(other, "r1") == records(lake, "r1")


def test_exported_log_of_inspect_shows_its_pictures_wherever_it_lies(
    grown: Bundle, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said(capsys, "export", "--run", "r1", "-o", "r1.eval")
    archive = Archive((tmp_path / "r1.eval").read_bytes(), "r1.eval")
    sample = next(s for m in archive.members if m.startswith("samples/") if (s := archive.json(m))["attachments"])
    shown = sample["messages"][-1]["content"][0]["image"]
    data = sample["attachments"][shown.removeprefix("attachment://")]
    assert data == "data:image/png;base64," + base64.b64encode(PICTURE).decode()


@pytest.mark.parametrize("name", ["verifiers", "openenv"])
def test_exported_rows_hold_their_pictures(
    grown: Bundle, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    said(capsys, "export", "--run", "r1", "-f", name, "-o", "r1.jsonl")
    text = (tmp_path / "r1.jsonl").read_text()
    assert "data:image/png;base64," + base64.b64encode(PICTURE).decode() in text and "images/" not in text


def test_picture_that_no_walk_shows_lies_beside_the_file_and_comes_back(
    lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = Message(role="user", parts=(ImagePart(hash=HASH),))
    whole = conversation(0, *steps()[:2], picture)
    stored(lake, replace(whole, trajectories=(replace(whole.trajectories[0], leaf_id=whole.nodes[1].id),)))
    for name in ("inspect", "verifiers"):
        out = tmp_path / name / "r1"
        out.parent.mkdir()
        assert json.loads(said(capsys, "export", "--run", "r1", "-f", name, "-o", str(out), "--json"))["images"] == 1
        said(capsys, "import", str(out), "-f", name, "--lake", str(tmp_path / f"{name}-lake"))
        with Lake.open(tmp_path / f"{name}-lake", mode="read") as opened:
            assert opened.get_blob(HASH) == PICTURE


def test_export_of_some_holds_only_their_walks(
    grown: Bundle, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said(capsys, "export", "--run", "r1", "--where", "turns = 2", "-o", "some.jsonl")
    (bundle,) = merged(read("messages", (tmp_path / "some.jsonl").read_bytes()))
    assert [t.index for t in bundle.trajectories] == [0]
    assert len(bundle.nodes) == 5 and len(bundle.supervisions) == 1


def test_export_refuses_to_overwrite_and_names_what_is_wrong(grown: Bundle, capsys: pytest.CaptureFixture[str]) -> None:
    said(capsys, "export", "--run", "r1", "-o", "a.jsonl")
    assert "--force" in said(capsys, "export", "--run", "r1", "-o", "a.jsonl", code=Exit.USAGE)
    said(capsys, "export", "--run", "r1", "-o", "a.jsonl", "--force")
    assert "has no run nope" in said(capsys, "export", "--run", "nope", "-o", "b.jsonl", code=Exit.USAGE)
    assert "no trajectory" in said(capsys, "export", "--env", "nope", "-o", "b.jsonl", code=Exit.USAGE)
    assert "which format" in said(capsys, "export", "--run", "r1", "-o", "b.txt", code=Exit.USAGE)
    assert "unknown format" in said(capsys, "export", "--run", "r1", "-o", "b", "-f", "xml", code=Exit.USAGE)
    assert "cannot be written" in said(capsys, "export", "--run", "r1", "-o", "no/b.jsonl", code=Exit.USAGE)
    assert sorted(path.name for path in Path().glob("*.jsonl")) == ["a.jsonl"]


def played(lake: Path, tmp_path: Path, answer: str) -> Bundle:
    path = tmp_path / "counter_environment.py"
    path.write_text(ENVIRONMENT.replace("ANSWER", answer))
    return stored(lake, conversation(0, *steps(), env=f"{path}:Counter"))


def test_replay_of_what_repeats_itself(lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bundle = played(lake, tmp_path, "")
    assert said(capsys, "replay", bundle.trajectories[0].id) == "same: 1 turns, 4 messages\n"
    body = json.loads(said(capsys, "replay", bundle.trajectories[0].id, "--json"))
    assert body["same"] is True and body["divergence"] is None


def test_replay_of_what_does_not(lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bundle = played(lake, tmp_path, "is now ")
    text = said(capsys, "replay", bundle.trajectories[0].id[:12], code=Exit.FAULT)
    assert "diverged at turn 1, message 3: message differs" in text
    assert "tool: total 2" in text and "tool: total is now 2" in text
    body = json.loads(said(capsys, "replay", bundle.trajectories[0].id, "--json", code=Exit.FAULT))
    assert body["same"] is False and body["divergence"]["depth"] == 3


def test_replay_without_the_environment_says_so(grown: Bundle, capsys: pytest.CaptureFixture[str]) -> None:
    error = said(capsys, "replay", grown.trajectories[0].id, code=Exit.USAGE)
    assert "unknown environment 'count'" in error


def test_no_lake_is_one_line(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    error = said(capsys, "list", code=Exit.STORE)
    assert error.startswith("error: ") and error.count("\n") == 1
    assert not lake.exists()


def test_a_trajectory_that_a_format_cannot_hold_drops_out_of_an_export_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "two.jsonl").write_text(json.dumps(FOREIGN) + "\n" + json.dumps(FOREIGN | {"n": 2}) + "\n")
    assert silva(["trees", "import", "two.jsonl", "--lake", "odd", "--run", "r"]) == Exit.OK

    async def spoil() -> None:
        async with Lake.open("odd", mode="write") as lake:
            one = lake.trajectories(run_id="r")[0]
            spoilt = msgspec.structs.replace(one, id="f" * 32, index=7, attributes={"columns": {"n": float("inf")}})
            torn = msgspec.structs.replace(one, id="e" * 32, index=8, leaf_id="d" * 32)
            await lake.append([spoilt, torn])

    asyncio.run(spoil())
    capsys.readouterr()
    assert silva(["trees", "export", "--lake", "odd", "--run", "r", "-f", "messages", "-o", "out.jsonl"]) == Exit.OK
    told = capsys.readouterr().err
    assert "trajectory ffffffffffff: messages: " in told and "trajectory eeeeeeeeeeee: its node" in told
    assert "2 could not be written and dropped out" in told
    assert len((tmp_path / "out.jsonl").read_text().splitlines()) == 2

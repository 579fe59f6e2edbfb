"""`silva trees` on a real lake: what is listed, shown, exported, imported and replayed is what was stored."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from silva.cli.main import run as silva
from silva.errors import Exit
from silva.lake import Lake
from silva.tree import (
    Boundary,
    Failure,
    ImagePart,
    Message,
    Outcome,
    Run,
    Status,
    Supervision,
    Task,
    Tool,
    assistant,
    call,
    system,
    tool_result,
    user,
)
from silva.tree.formats import FORMATS, WRITABLE, Bundle, merged, read
from silva.tree.formats.draft import Draft, Origin, Turn, grow
from silva.tree.formats.inspect_archive import Archive

GOLDEN = Path(__file__).parents[1] / "tree" / "golden"
FILES: dict[str, str] = json.loads((GOLDEN / "formats.json").read_text())
PICTURE = b"\x89PNG a picture"
HASH = hashlib.sha256(PICTURE).hexdigest()
ADD = Tool(name="add", description="Add.", parameters={"type": "object"})

ENVIRONMENT = '''
"""Counts up to the goal."""
from silva.envs import Capabilities, Evaluation, Observation
from silva.tree import Task, Tool, system, tool_result, user


class Counter:
    capabilities = Capabilities(tools=True)

    def __init__(self, **options):
        self.total = 0

    @classmethod
    def tasks(cls, split="test"):
        return [Task(id="count/1", env="count")]

    async def reset(self, task, seed):
        self.total = 0
        tools = (Tool(name="add", description="Add.", parameters={"type": "object"}),)
        return Observation(messages=(system("Count."), user("Begin.")), tools=tools)

    async def step(self, action):
        self.total += action.tool_calls[0].parsed()["by"]
        return Observation(messages=(tool_result(action.tool_calls[0].id, f"total ANSWER{self.total}"),))

    async def evaluate(self):
        return Evaluation(score=1.0, success=True)

    async def close(self):
        pass
'''

TASK = Task(id="count/1", env="count", instruction="Count.")
replace: Any = msgspec.structs.replace


def conversation(index: int, *said: Message, env: str = "count", outcome: Outcome | None = None) -> Bundle:
    run = Run(id="r1", envs=(env,), model="m", started=10.0, finished=20.0, status="completed")
    turns = tuple(Turn(message=message, tools=(ADD,) if place == 0 else None) for place, message in enumerate(said))
    task = replace(TASK, env=env)
    grown = grow(Draft(origin=Origin(run=run, task=task, index=index), turns=turns, agent="tools", model="m"), "t", 0)
    ended = outcome or Outcome(status=Status.COMPLETED, score=1.0, success=True)
    trajectories = tuple(replace(t, outcome=ended, started=10.0 + index) for t in grown.trajectories)
    return replace(grown, trajectories=trajectories)


def steps(total: int = 2) -> tuple[Message, ...]:
    return (
        system("Count."),
        user("Begin."),
        assistant("", call("add", {"by": 2}, "c1")),
        tool_result("c1", f"total {total}"),
    )


def stored(where: Path, *bundles: Bundle) -> Bundle:
    (bundle,) = merged(bundles)

    async def fill() -> None:
        async with Lake.open(where) as lake:
            await lake.put_blob(PICTURE, "image/png")
            await lake.append(list(bundle.records()))

    asyncio.run(fill())
    return bundle


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    where = tmp_path / "lake"
    monkeypatch.setenv("SILVA_LAKE", str(where))
    monkeypatch.chdir(tmp_path)
    return where


@pytest.fixture
def grown(lake: Path) -> Bundle:
    broke = Failure(boundary=Boundary.MODEL, code="model.timeout", message="no reply")
    picture = Message(role="user", parts=(ImagePart(hash=HASH),))
    first = conversation(0, *steps(), assistant("Done \x1b[31m[bold]."))
    second = conversation(1, *steps()[:2], assistant("I will not."), picture)
    third = conversation(2, *steps()[:2], outcome=Outcome(status=Status.FAILED, failure=broke))
    judged = Supervision(
        id="s", node_id=first.nodes[-1].id, run_id="r1", verdict="good", source="person", by="p", reason="so"
    )
    return stored(lake, first, second, third, Bundle(run=first.run, supervisions=(judged,)))


def said(capsys: pytest.CaptureFixture[str], *words: str, code: int = Exit.OK) -> str:
    capsys.readouterr()
    found = silva(["trees", *words])
    printed = capsys.readouterr()
    assert found == code, printed.err
    return printed.out if code in (Exit.OK, Exit.FAULT) else printed.err


def records(location: Path, run: str) -> dict[str, Any]:
    with Lake.open(location, mode="read") as opened:
        found = [
            *opened.nodes(run_id=run),
            *opened.trajectories(run_id=run),
            *opened.supervisions(run_id=run),
            *(task.owned_by(run) for task in opened.tasks(run_id=run)),  # a record made by hand is nobody's
            *opened.runs(),
        ]
    return {f"{type(record).__name__} {record.id}": record for record in found}


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


def test_import_into_another_run_keeps_both(grown: Bundle, lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said(capsys, "export", "--run", "r1", "-o", "r1.jsonl")
    said(capsys, "import", "r1.jsonl", "--run", "r2")
    known = records(lake, "r1")
    assert len([k for k in known if k.startswith("Trajectory")]) == 3
    copied = records(lake, "r2")
    assert len([k for k in copied if k.startswith("Node")]) == 7
    assert not {k for k in known if k.startswith("Node")} & {k for k in copied if k.startswith("Node")}


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


FOREIGN = {"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]}


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

"""What is read from an attempt besides its turns: what will be trained of it, when it was, its world's files."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from console_lakes import Grower, run_record, task_record
from consoles import Console

from silva.cli.main import run as silva
from silva.console.admission import Admission
from silva.console.lanes import MOST_TURNS
from silva.console.loops import Loops
from silva.console.orders import Label, Orders
from silva.console.rating import Ratings
from silva.console.reading import Reading
from silva.console.timeline import timeline
from silva.console.trail import Trail
from silva.console.trained import trained, trained_run
from silva.console.users import User
from silva.console.workspace import workspace
from silva.errors import StoreError
from silva.guide.event import Event, Events
from silva.guide.mailroom import folder_of
from silva.lake import Lake
from silva.sandbox.contents import Contents
from silva.sandbox.layers import Layers
from silva.tree import Author, Node, Supervision, Tokens, Usage, assistant, call, tool_result, user


def drawn(grower: Grower, command: str) -> Node:
    """A turn whose ids are known: two of glue, three that were drawn."""
    made = call("session_run", {"command": command}, f"c{len(grower.nodes)}")
    tokens = Tokens(ids=(1, 2, 3, 4, 5), sampled=3, logprobs=(-0.1, -1.5, -4.0))
    node = grower.add(Author.POLICY, assistant("", made), model="m", tokens=tokens)
    grower.add(Author.ENVIRONMENT, tool_result(made.id, "ok", "session_run"))
    grower.turns += 1
    return node


def test_masks_are_those_of_the_samples_command_and_a_click_takes_one_back(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = home / "lake"
    grower = Grower("r", "terminal/a")
    first, second, third = (drawn(grower, name) for name in ("ls", "ls", "cat a"))
    grower.add(Author.PERSON, assistant("A person's own."))
    with Lake.open(lake) as writer:
        judged = Supervision(
            id="s", node_id=second.id, run_id="r", verdict="mask", source="rule", by="repeated", reason="twice", at=1.0
        )
        record = grower.end()
        writer.append_sync([run_record("r", finished=True), task_record("terminal/a"), *grower.nodes, judged, record])

    def both() -> tuple[dict[str, Any], dict[str, Any]]:
        with Lake.open(lake, mode="read") as reader:
            shown = trained(reader, record, list(reader.walk(record)))
            (row,) = trained_run(reader, "r")["rows"]
            assert row["loss"] == shown["loss"] and row["drawn"] == shown["drawn"]
        output = str(home / f"{time.time_ns()}.samples")
        words = [
            "train",
            "samples",
            "--lake",
            str(lake),
            "--run",
            "r",
            "-o",
            output,
            "--logprobs",
            "optional",
            "--json",
        ]
        assert silva(words) == 0
        return shown, json.loads(capsys.readouterr().out)

    shown, written = both()
    assert (shown["ids"], shown["drawn"], shown["loss"]) == (written["ids"], written["drawn"], written["with_loss"])
    assert [turn["state"] for turn in shown["turns"]] == ["loss", "masked", "loss", "context"]
    assert shown["turns"][1]["why"] == "Masked by repeated (rule): twice"
    assert shown["turns"][0]["ids"] == [[3, -0.1, True, None], [4, -1.5, True, None], [5, -4.0, True, None]]
    reading = Reading(str(lake))
    reading.watch.start()
    ratings, admission = Ratings(reading, Loops(reading)), Admission(reading.lake)
    orders = Orders(reading, Trail(home / "trail.jsonl"), home / "datasets", ratings, admission)
    orders.label(User(name="ann", role="guide", hash=""), Label(run="r", node=second.id, verdict="keep"))
    reading.close()
    shown, written = both()
    assert shown["loss"] == written["with_loss"] == 9 and shown["turns"][1]["why"].startswith("Kept by ann (person)")
    assert third.id == shown["turns"][2]["node"] and first.id == shown["turns"][0]["node"]


def test_what_has_no_ids_is_refused_by_name_and_still_shown(home: Path) -> None:
    grower = Grower("r", "terminal/a")
    grower.turn()
    with Lake.open(home / "lake") as writer:
        record = grower.end()
        writer.append_sync([run_record("r", finished=True), task_record("terminal/a"), *grower.nodes, record])
        shown = trained(writer, record, grower.nodes)
    assert "no " in shown["refused"] and shown["turns"][0]["why"] == shown["refused"] and shown["loss"] == 0


def test_a_timeline_tells_whose_time_it_was() -> None:
    grower = Grower("r", "terminal/a")
    begin = 1000.0
    made = call("session_run", {"command": "rm -rf b"}, "c")
    action = grower.add(Author.POLICY, assistant("", made), usage=Usage(model_seconds=2.0))
    answer = grower.add(Author.ENVIRONMENT, tool_result("c", "ok", "session_run"), usage=Usage(env_seconds=3.0))
    own = [msgspec.structs.replace(action, started=begin), msgspec.structs.replace(answer, started=begin + 15)]
    facts = {"run_id": "r", "trajectory_id": grower.id, "task_id": "terminal/a", "turn": 1, "node_id": action.id}
    happened = [
        Event(kind="waiting", at=begin + 2, **facts),  # pyright: ignore
        Event(kind="decided", at=begin + 12, text="approve", by="ann", **facts),  # pyright: ignore
        Event(kind="heard", at=begin + 15, word="w", text="pause", **facts),  # pyright: ignore
    ]
    shown = timeline(own, grower.id, happened, begin + 20)
    assert [(each["kind"], each["at"], each["seconds"]) for each in shown["spans"]] == [
        ("model", begin, 2.0), ("approval", begin + 2, 10.0), ("environment", begin + 12, 3.0),
        ("pause", begin + 15, 5.0),
    ]  # fmt: skip
    assert shown["sums"] == {"model": 2.0, "approval": 10.0, "environment": 3.0, "pause": 5.0, "other": 0.0}


def test_a_run_is_a_lane_for_every_attempt(home: Path) -> None:
    first, second = Grower("r", "terminal/a"), Grower("r", "terminal/b", index=1)
    for _ in range(2):
        first.turn()
    first.add(Author.PERSON, user("Look at the log."))
    first.turn()
    asks, _ = second.turn("rm -rf b")
    long = Grower("r", "terminal/c", index=2)
    for _ in range(MOST_TURNS + 10):
        long.turn()
    begin = time.time() - 1000
    for grower, apart in ((first, 10), (second, 50), (long, 0.1)):
        moved = [msgspec.structs.replace(node, started=begin + apart * n) for n, node in enumerate(grower.nodes)]
        grower.nodes, grower.began = moved, begin
    ended = msgspec.structs.replace(first.end(0.5), finished=begin + 100)
    facts = {"run_id": "r", "trajectory_id": second.id, "task_id": "terminal/b", "index": 1, "node_id": asks.id}
    told = Events(folder_of(str(home / "lake")), "r")
    told.tell(Event(kind="waiting", at=begin + 150, turn=1, action="rm", **facts))  # pyright: ignore
    told.tell(Event(kind="decided", at=begin + 190, turn=1, text="approve", by="ann", **facts))  # pyright: ignore
    told.tell(Event(kind="heard", at=begin + 195, word="w", text="forbid", by="ann", **facts))  # pyright: ignore
    with Lake.open(home / "lake") as writer:
        tasks = [task_record(f"terminal/{name}") for name in "abc"]
        writer.append_sync([run_record("r"), *tasks, *first.nodes, *second.nodes, ended])
        writer.compact()  # what is in the tables and what stands in the journal are one
        writer.append_sync(long.nodes)
    reading = Reading(str(home / "lake"))
    reading.watch.start()
    try:
        shown = reading.lanes("r")
    finally:
        reading.close()
    assert shown["of"] == 3 and [lane["count"] for lane in shown["lanes"]] == [3, MOST_TURNS + 10, 1]
    left, many, right = shown["lanes"]
    assert [turn["at"] - begin for turn in left["turns"]] == [20, 40, 70]
    assert [(word["at"] - begin, word["text"]) for word in left["words"]] == [(60, "Look at the log.")]
    assert (left["status"], left["score"], left["end"] - begin) == ("completed", 0.5, 100)
    assert [(each["kind"], each["at"] - begin, each["seconds"]) for each in right["waits"]] == [("approval", 150, 40)]
    assert [word["text"] for word in right["words"]] == ["forbid by ann"]
    assert right["status"] == "running" and right["end"] - begin >= 1000, "it goes on until now"
    assert len(many["turns"]) < MOST_TURNS, "of turns that lie close not all are drawn, but all are counted"


def snapshots(grower: Grower, ids: list[str]) -> list[Node]:
    """A walk with a snapshot after each answer."""
    for id in ids:
        grower.turn()
        facts = {"snapshot": {"kind": "own"}}
        grower.nodes[-1] = msgspec.structs.replace(grower.nodes[-1], snapshot_id=id, attributes=facts)
    return grower.nodes


def test_the_workspace_at_a_turn_and_what_changed(home: Path, tmp_path: Path) -> None:
    store, world = Contents(home / "home" / "snapshots" / "terminal"), tmp_path / "world"
    world.mkdir()
    secret = tmp_path / "secret"
    secret.write_text("never shown")
    (world / "a.txt").write_text("one\ntwo\n")
    (world / "old").write_text("old")
    first = store.keep(world, "1")
    (world / "a.txt").write_text("one\nthree\n")
    (world / "old").unlink()
    (world / "link").symlink_to(secret)
    (world / "bytes").write_bytes(b"\x00\x01")
    second = store.keep(world, "2")
    walk = snapshots(Grower("r", "terminal/a"), [first.id, second.id])
    shown = workspace(walk, "", None, "a.txt")
    changes = {each["path"]: each["change"] for each in shown["files"]}
    assert changes == {"a.txt": "~", "old": "-", "link": "+", "bytes": "+"}
    assert shown["file"]["text"] == "one\nthree\n"
    assert [(each["kind"], each["text"]) for each in shown["file"]["diff"]][-2:] == [("-", "two"), ("+", "three")]
    assert workspace(walk, "", None, "link")["file"] == {"text": "", "note": f"A link to {secret}.", "diff": []}
    assert "no text" in workspace(walk, "", None, "bytes")["file"]["note"]
    earlier = workspace(walk, walk[3].id, None, "old")
    assert earlier["file"]["text"] == "old" and {each["change"] for each in earlier["files"]} == {""}
    with pytest.raises(StoreError, match="not on this machine"):
        workspace(snapshots(Grower("r", "terminal/b"), ["gone"]), "", None)


def test_a_layered_checkpoint_shows_what_lies_on_top(home: Path, tmp_path: Path) -> None:
    store = Layers(home / "home" / "snapshots" / "terminal")

    def top(name: str) -> Path:
        for place in ("workspace", "rest"):
            (tmp_path / name / place).mkdir(parents=True)
        return tmp_path / name

    (top("one") / "workspace" / "a").write_text("first")
    (tmp_path / "one" / "workspace" / "b").write_text("b")
    first = store.adopt(tmp_path / "one", "1", (), "", copy=True)
    (top("two") / "workspace" / "a").write_text("second")
    try:
        os.mknod(tmp_path / "two" / "workspace" / "b", 0o020000, 0)  # how an overlay says that a file is gone
    except PermissionError:
        pytest.skip("this user may make no whiteouts")
    second = store.adopt(tmp_path / "two", "2", first.layers, "", copy=True)
    walk = snapshots(Grower("r", "terminal/a"), [first.id, second.id])
    shown = workspace(walk, "", None, "a")
    assert {each["path"]: each["change"] for each in shown["files"]} == {"a": "~", "b": "-"}
    assert shown["file"]["text"] == "second"


@pytest.mark.slow
def test_the_inbox_is_answered_and_a_mask_is_taken_back(
    writer: Lake, serve: Callable[..., Console], page: Any, home: Path
) -> None:
    from silva.guide import words

    lake = str(home / "lake")
    waits = Grower("live", "terminal/a")
    action, _ = waits.turn("rm -rf build\u202e")
    ended = Grower("done", "terminal/b")
    node = drawn(ended, "ls")
    judged = Supervision(id="s", node_id=node.id, run_id="done", verdict="mask", source="rule", by="blind", at=1.0)
    writer.append_sync([run_record("live"), task_record("terminal/a"), *waits.nodes])
    records = [run_record("done", finished=True), task_record("terminal/b"), *ended.nodes, judged, ended.end()]
    writer.append_sync(records)
    Events(folder_of(lake), "live").tell(
        Event(
            kind="waiting", at=time.time(), run_id="live", trajectory_id=waits.id, task_id="terminal/a", turn=1,
            node_id=action.id, action="rm -rf build\u202e", reasons=("risky",),
        )
    )  # fmt: skip
    console = serve()
    page.goto(console.at())
    page.get_by_role("link", name="Inbox 1 wait").click()
    card = page.get_by_role("article", name="Turn 1 of terminal/a in live")
    card.get_by_text("U+202E").wait_for()
    card.get_by_label("Why, for turn 1 of terminal/a").fill("not that")
    card.get_by_role("button", name="Refuse").click()
    page.get_by_text("refused: turn 1 of terminal/a").wait_for()
    (said,) = words(lake, "live")
    assert (said.kind, said.node, said.why, said.to) == ("reject", action.id, "not that", waits.id)
    writer.close_sync()
    page.goto(f"{console.url}/#/trained/done")
    page.get_by_role("link", name="terminal/b").click()
    turn = page.get_by_role("article", name="turn 1: masked")
    turn.get_by_text("Masked by blind (rule)").wait_for()
    turn.get_by_role("button", name="Unmask").click()
    page.get_by_role("article", name="turn 1: trained").get_by_text("unmasked in the console").first.wait_for()


@pytest.mark.slow
def test_a_terminal_follows_when_its_panel_is_made_smaller(
    writer: Lake, serve: Callable[..., Console], page: Any
) -> None:
    grower = Grower("live", "terminal/a")
    for _ in range(12):
        grower.turn(output="line\n" * 12)
    writer.append_sync([run_record("live"), task_record("terminal/a"), *grower.nodes])
    console = serve()
    page.goto(console.at())
    page.goto(f"{console.url}/#/run/live/{grower.id}")
    shell = page.get_by_role("log", name="Terminal of session main")
    shell.get_by_text("$ echo 12").wait_for()
    end = "place => place.scrollTop + place.clientHeight >= place.scrollHeight - 2"
    shell.evaluate("place => { document.querySelector('.say').style.minHeight = '400px'; }")
    writer.append_sync(grower.turn(output="the newest"))
    shell.get_by_text("the newest").wait_for()
    page.wait_for_timeout(500)
    assert shell.evaluate(end), "it stays at its end"
    shell.evaluate("place => { place.scrollTop = 100; }")
    page.wait_for_timeout(200)
    writer.append_sync(grower.turn(output="one more"))
    shell.get_by_text("one more").wait_for()
    assert not shell.evaluate(end), "whoever scrolled up stays there"


def test_what_a_budget_bought_is_the_reports(home: Path) -> None:
    grower = Grower("r", "terminal/a")
    grower.turn()
    for score in ("0.75", "0.25"):
        grower.turns += 1
        made = call("evaluate", {}, f"e{score}")
        grower.add(Author.POLICY, assistant("", made), model="m")
        grower.add(Author.ENVIRONMENT, tool_result(made.id, f"score {score} of 1", "evaluate"))
    record = grower.end(score=0.25)
    outcome = msgspec.structs.replace(record.outcome, metrics={"evaluations": 2.0})
    record = msgspec.structs.replace(record, outcome=outcome)
    with Lake.open(home / "lake") as writer:
        writer.append_sync([run_record("r", finished=True), task_record("terminal/a"), *grower.nodes, record])
    reading = Reading(str(home / "lake"))
    reading.watch.start()
    try:
        found = reading.scaling("r")
    finally:
        reading.close()
    assert found is not None and found["told"] == 1
    assert [(each["at"], each["best"]["value"], each["last"]["value"]) for each in found["turns"]] == [
        (1, 0.0, 0.0), (2, 0.75, 0.75), (3, 0.75, 0.25),
    ]  # fmt: skip

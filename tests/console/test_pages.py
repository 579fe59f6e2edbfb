"""The console's pages in a real browser: live, large, hostile, interrupted."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from console_lakes import Grower, ended_run, live_run, run_record, task_record
from consoles import Console, in_the_list, until
from safetensors.numpy import save_file

from silva.console.stream import MOST_NODES
from silva.guide import words
from silva.lake import Lake
from silva.train.data.dataset import read_dataset
from silva.train.registry import Registry
from silva.tree import Author, Run, assistant, call, user

pytestmark = pytest.mark.slow

Serve = Callable[..., Console]
MARKUP = "<script>window.hacked=1</script><img src=x onerror='window.hacked=2'><svg onload=window.hacked=3><b>bold</b>"


def opened(page: Any, console: Console, where: str) -> None:
    page.goto(console.at())
    page.goto(f"{console.url}/#{where}")


def rows_in_page(page: Any, label: str) -> int:
    return page.get_by_role("list", name=label, exact=True).get_by_role("listitem").count()


def test_a_run_is_seen_as_it_grows(writer: Lake, serve: Serve, page: Any) -> None:
    writer.append_sync(ended_run("done", ["terminal/a", "terminal/b"]))
    grower = live_run(writer)
    console = serve()
    page.goto(console.at())
    page.get_by_role("heading", name="Runs", exact=True).wait_for()
    assert page.url == f"{console.url}/", "the token does not stay in the address"
    runs = page.get_by_role("table", name="Runs")
    runs.get_by_text("2/2").wait_for()
    runs.get_by_role("row", name="done").click()
    page.get_by_role("img", name="Safety against completion").wait_for()
    page.evaluate("window.stays = true")
    page.goto(f"{console.url}/#/run/live/{grower.id}")
    turns = page.get_by_role("list", name="Trajectory", exact=True)
    turns.get_by_text("step 2").wait_for()
    said = time.monotonic()
    writer.append_sync(grower.turn("make", "made NEWS"))
    turns.get_by_text("step 3").wait_for()
    seen = time.monotonic() - said
    page.get_by_role("tabpanel", name="Terminals").get_by_text("made NEWS").wait_for()
    page.get_by_label("Turns", exact=True).get_by_text("3 turns").wait_for()
    writer.append_sync([grower.end(0.25, 1.0)])
    page.get_by_label("Status").get_by_text("completed").wait_for()
    page.get_by_text("score 0.25").wait_for()
    assert page.evaluate("window.stays"), "without a reload"
    assert seen < 10, seen


def test_markup_is_shown_and_never_runs(writer: Lake, serve: Serve, page: Any) -> None:
    task = f"terminal/{MARKUP}"
    grower = Grower("live", task, opening=MARKUP)
    grower.turn(MARKUP, MARKUP, text=MARKUP)
    grower.add(Author.PERSON, user(MARKUP))
    made = call("file_write", {"path": MARKUP, "text": MARKUP}, "w")
    grower.add(Author.POLICY, assistant(MARKUP, made), model=MARKUP)
    run = msgspec.structs.replace(run_record("live"), config={"note": MARKUP}, model=MARKUP)
    other = Grower("live", task, index=1, opening=MARKUP)
    other.turn(MARKUP, "else", text=MARKUP)
    writer.append_sync([run, task_record(task), *grower.nodes, *other.nodes, other.end()])
    console = serve()
    opened(page, console, f"/run/live/{grower.id}")
    turns = page.get_by_role("list", name="Trajectory", exact=True)
    turns.get_by_text("<script>window.hacked=1</script>").first.wait_for()
    page.get_by_role("button", name="Unfold or fold all").click()
    turns.get_by_role("button", name="Context").first.click()
    page.get_by_role("dialog", name="Exact context").get_by_text("<script>").locator("visible=true").first.wait_for()
    page.get_by_role("dialog").get_by_role("button", name="Close").click()
    for tab in ("Files", "Branches", "Terminals"):
        page.get_by_role("tab", name=tab).click()
        page.get_by_role("tabpanel", name=tab).get_by_text("<script>").locator("visible=true").first.wait_for()
    page.get_by_label("Words").fill(MARKUP)
    page.get_by_role("button", name="Send").click()
    page.get_by_role("log", name="What was said").get_by_text("<script>").locator("visible=true").first.wait_for()
    for where in ("/runs", "/lake", f"/compare/{grower.id}/{other.id}", "/trail"):
        page.goto(f"{console.url}/#{where}")
        page.get_by_text("<script>").locator("visible=true").first.wait_for()
    assert page.evaluate("window.hacked") is None
    assert page.locator("#page script, #page svg[onload], #page b:text-is('bold')").count() == 0
    assert page.locator("img[src='x']").count() == 0


def test_a_trajectory_of_2000_turns_is_light(writer: Lake, serve: Serve, page: Any) -> None:
    grower = Grower("long", "terminal/a")
    for number in range(2_000):
        grower.turn(output=f"found the needle {number}" if number == 1_234 else "hay\n" * 20)
    writer.append_sync([run_record("long"), task_record("terminal/a"), *grower.nodes])
    console = serve()
    opened(page, console, "/runs")
    page.get_by_role("heading", name="Runs", exact=True).wait_for()
    began = time.monotonic()
    page.goto(f"{console.url}/#/run/long/{grower.id}")
    page.get_by_role("list", name="Trajectory", exact=True).get_by_text("step 2000").wait_for()
    took = time.monotonic() - began
    assert rows_in_page(page, "Trajectory") < 80
    page.get_by_label("Jump to turn").fill("1500")
    page.keyboard.press("Enter")
    page.get_by_role("listitem", name="turn 1500 policy assistant").wait_for()
    page.keyboard.press("o")
    page.get_by_role("listitem", name="turn 1500 policy assistant").get_by_role("button", name="Context").wait_for()
    page.keyboard.press("/")
    page.keyboard.type("needle")
    page.keyboard.press("Enter")
    page.get_by_role("listitem", name="turn 1235 environment tool").get_by_text("needle 1234").wait_for()
    page.get_by_role("status", name="Places found").get_by_text("1 of 1").wait_for()
    page.keyboard.press("G")
    page.get_by_role("listitem", name="turn 2000 environment tool").wait_for()
    writer.append_sync(grower.turn("last", "the newest"))
    page.get_by_role("listitem", name="turn 2001 environment tool").wait_for()
    assert rows_in_page(page, "Trajectory") < 80
    assert took < 20, took


def test_10000_trajectories_are_browsed_filtered_and_saved(writer: Lake, serve: Serve, page: Any, home: Path) -> None:
    base = Grower("many", "terminal/0")
    base.turn()
    ended = base.end(1.0, 1.0)
    records = [
        msgspec.structs.replace(
            ended,
            id=f"{number:032x}",
            task_id=f"terminal/{number}",
            tree_id=f"{number:032x}",
            turns=number % 50,
            finished=1e9 + number,
            outcome=msgspec.structs.replace(ended.outcome, score=(number % 10) / 10),
        )
        for number in range(10_000)
    ]
    writer.append_sync([run_record("many", finished=True), task_record("terminal/0"), *records])
    console = serve()
    opened(page, console, "/lake")
    page.get_by_role("status", name="Trajectories found").get_by_text("10,000 trajectories").wait_for()
    listed = page.get_by_role("list", name="Trajectories", exact=True)
    listed.get_by_text("terminal/9999", exact=False).wait_for()
    assert rows_in_page(page, "Trajectories") < 120
    listed.evaluate("list => { list.scrollTop = list.scrollHeight }")
    listed.get_by_role("listitem", name="trajectory terminal/0 0.0 of many").wait_for()
    assert rows_in_page(page, "Trajectories") < 120
    page.get_by_label("Condition on trajectories").fill("score >= 0.9 and turns < 10")
    page.keyboard.press("Enter")
    page.get_by_role("status", name="Trajectories found").get_by_text("200 trajectories").wait_for()
    page.get_by_text("Save as a data set").click()
    page.get_by_label("Name of the data set").fill("good-ones")
    page.get_by_role("button", name="Save data set").click()
    path = home / "datasets" / "good-ones.jsonl"
    until(path.exists)
    found = read_dataset(path)
    assert len(found.entries) == 200 and found.part == "train" and "score >= 0.9" in found.made
    page.get_by_label("Condition on trajectories").fill("score >>> 1")
    page.keyboard.press("Enter")
    page.get_by_text("where: cannot read").wait_for()


def test_a_browser_that_was_gone_is_told_what_it_missed(writer: Lake, serve: Serve, page: Any, home: Path) -> None:
    grower = live_run(writer)
    console = serve()
    opened(page, console, f"/run/live/{grower.id}")
    turns = page.get_by_role("list", name="Trajectory", exact=True)
    turns.get_by_text("step 2").wait_for()
    page.evaluate("window.stays = true")
    page.context.set_offline(True)
    console.close()
    page.get_by_label("Connection").get_by_text("reconnecting").wait_for()
    while len(grower.nodes) < 2 * MOST_NODES:  # more than a stream holds for a browser
        writer.append_sync([node for _ in range(20) for node in grower.turn()])
    page.context.set_offline(False)
    again = serve(port=console.port, users=console.app._users)
    assert again.port == console.port
    page.get_by_label("Connection").get_by_text("live").wait_for()
    page.get_by_label("Turns", exact=True).get_by_text(f"{grower.turns} turns").wait_for()
    writer.append_sync([*grower.turn(), grower.end()])
    turns.get_by_text(f"step {grower.turns}").wait_for()
    page.get_by_label("Status").get_by_text("completed").wait_for()
    assert in_the_list(page) == [node.id for node in grower.nodes], "every turn stands on the page once, in order"
    assert page.evaluate("window.stays")


def test_a_wrong_token_sees_nothing(writer: Lake, serve: Serve, page: Any) -> None:
    live_run(writer)
    console = serve()
    for address in (f"{console.url}/?token=guess", console.url, f"{console.url}/static/app.js"):
        answer = page.goto(address)
        assert answer.status == 403 and "live" not in page.content(), address
        assert page.get_by_role("heading", name="This console needs its token").count()
    for path in ("/api/runs", "/events?run=*", "/blob/00"):
        assert page.request.get(console.url + path).status == 401, path


def test_words_reach_the_mailbox_and_the_trail(writer: Lake, serve: Serve, page: Any, home: Path) -> None:
    grower = live_run(writer)
    writer.append_sync(ended_run("done", ["terminal/a"]))
    console = serve()
    opened(page, console, f"/run/live/{grower.id}")
    page.get_by_role("list", name="Trajectory", exact=True).get_by_text("step 2").wait_for()
    page.keyboard.press("s")
    page.keyboard.type("Look at the log first.")
    page.keyboard.press("Control+Enter")
    said = page.get_by_role("log", name="What was said")
    said.get_by_text("Look at the log first.").wait_for()
    page.get_by_role("button", name="Pause").click()
    said.get_by_text("pause").first.wait_for()
    page.get_by_label("Kind of word").select_option("forbid")
    page.get_by_label("Words").fill("rm -rf")
    page.get_by_label("Why").fill("no backup")
    page.get_by_role("button", name="Send").click()
    said.get_by_text("why: no backup").wait_for()
    kept = words(str(home / "lake"), "live")
    assert [(each.kind, each.to) for each in kept] == [(kind, grower.id) for kind in ("say", "pause", "forbid")]
    assert (kept[0].text, kept[2].pattern, kept[2].why) == ("Look at the log first.", "rm -rf", "no backup")
    deeds = [json.loads(each) for each in console.trail.read_text().splitlines()]
    assert [each["went"] for each in deeds] == ["begun", "done"] * 3
    assert deeds[0]["text"] == "Look at the log first." and deeds[0]["by"] == kept[0].by
    page.get_by_label("Kind of word").select_option("forbid")
    page.get_by_label("Words").fill("(")
    page.get_by_role("button", name="Send").click()
    page.get_by_text("is no regular expression").wait_for()
    page.goto(f"{console.url}/#/run/done")
    page.get_by_label("Words").fill("too late")
    page.get_by_role("button", name="Send").click()
    page.get_by_text("run done has ended").wait_for()
    assert page.get_by_label("Words").input_value() == "too late", "what could not be said is not lost"


def test_turns_are_labelled_compared_and_their_branches_walked(serve: Serve, page: Any, home: Path) -> None:
    left, right = Grower("done", "terminal/a"), Grower("done", "terminal/a", index=1)
    for grower in (left, right):
        grower.turn()
    right.turn("ls", "files", text="another way")
    with Lake.open(home / "lake") as lake:
        lake.append_sync(
            [
                run_record("done", finished=True),
                task_record("terminal/a"),
                *left.nodes,
                *right.nodes,
                left.end(0.0),
                right.end(1.0),
            ]
        )
    console = serve()
    opened(page, console, f"/run/done/{left.id}")
    page.get_by_role("tab", name="Branches").click()
    page.get_by_role("treeitem").get_by_role("button", name="Branch 2: 1.0, 2 turns").click()
    page.get_by_role("list", name="Trajectory", exact=True).get_by_text("another way").first.click()
    page.get_by_role("button", name="Mask", exact=True).click()
    page.get_by_text("mask · ").first.wait_for()
    with Lake.open(home / "lake", mode="read") as lake:
        (label,) = lake.supervisions(run_id="done")
    assert (label.verdict, label.source, label.node_id) == ("mask", "person", right.nodes[4].id)
    page.goto(f"{console.url}/#/lake")
    page.get_by_role("listitem", name="trajectory terminal/a 0.0 of done").wait_for()
    page.keyboard.press("j")
    page.keyboard.press("x")
    page.keyboard.press("j")
    page.keyboard.press("x")
    page.get_by_role("link", name="compare them").click()
    page.get_by_role("status", name="Divergence").get_by_text("They first differ in row 5").wait_for()
    page.get_by_role("listitem", name="first divergence").get_by_text("another way").wait_for()


def test_training_shows_curves_versions_and_their_data(serve: Serve, page: Any, home: Path) -> None:
    with Lake.open(home / "lake") as lake:
        curve = [{"step": step, "loss": 1.0 / step} for step in range(1, 30)]
        lake.append_sync(
            [Run(id="sft-1", command="train", agent="sft", started=1e9, finished=2e9, summary={"curve": curve})]
        )
    (home / "tiny").mkdir()
    (home / "tiny" / "config.json").write_text('{"model_type": "llama", "dtype": "float32"}')
    (home / "tiny" / "tokenizer.json").write_text("{}")
    save_file({"model.norm.weight": np.ones(4, np.float32)}, home / "tiny" / "model.safetensors")
    Registry.open(home / "lake").begin("small", home / "tiny", by="ann")
    console = serve()
    opened(page, console, "/training")
    page.get_by_role("img", name="Curve of loss").wait_for()
    page.get_by_role("table", name="Policy versions").get_by_text("small-0").wait_for()


def test_the_keyboard_and_both_lights(writer: Lake, serve: Serve, page: Any) -> None:
    grower = live_run(writer, turns=3)
    console = serve()
    opened(page, console, f"/run/live/{grower.id}")
    turns = page.get_by_role("list", name="Trajectory", exact=True)
    turns.get_by_text("step 3").wait_for()
    page.keyboard.press("?")
    page.get_by_role("dialog", name="Keys").get_by_text("exact context of the turn").wait_for()
    page.keyboard.press("Escape")
    page.keyboard.press("k")
    page.keyboard.press("c")
    page.get_by_role("dialog", name="Exact context").get_by_text("before turn 3").wait_for()
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    page.keyboard.type("1")
    page.keyboard.press("Enter")
    turns.locator("[aria-current=true]").get_by_text("step 1").wait_for()
    colours = set()
    for _ in range(2):
        page.keyboard.press("t")
        colours.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert len(colours) == 2
    page.keyboard.press("1")
    page.get_by_role("heading", name="Runs", exact=True).wait_for()

"""A run steered from the page, in a real browser, against a live engine: what a person does there is what the agent's
next turn does, and what the lake keeps."""

from __future__ import annotations

import getpass
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from consoles import Console, in_sight, jumped, shown, until
from live_engines import Engine, actions, called

from silva.tree import Author

pytestmark = pytest.mark.slow

Serve = Callable[..., Console]
Start = Callable[..., Engine]
ME = getpass.getuser()


def opened(page: Any, console: Console, engine: Engine, attempt: str = "") -> Any:
    """The page of an attempt; its list of turns."""
    page.goto(console.at())
    page.goto(f"{console.url}/#/run/live/{attempt or engine.attempt()}")
    turns = page.get_by_role("list", name="Trajectory", exact=True)
    turns.get_by_text("write(").first.wait_for()
    return turns


def say(page: Any, words: str, kind: str = "say", turn: int = 0, why: str = "") -> None:
    """Fill in the form and send it."""
    page.get_by_label("Kind of word").select_option(kind)
    if turn:
        page.get_by_label("Turn", exact=True).fill(str(turn))
    page.get_by_label("Words").fill(words)
    page.get_by_label("Why").fill(why)
    page.get_by_role("button", name="Send").click()
    page.get_by_role("status").get_by_text(f"said: {kind}").first.wait_for()


def stopped(page: Any, engine: Engine) -> None:
    """End the run from the page."""
    page.get_by_role("button", name="Stop").click()
    page.get_by_label("Status").get_by_text("truncated").wait_for()
    engine.ended()


def test_words_pause_and_resume_take_effect_in_the_very_next_turn(
    serve: Serve, engine: Start, page: Any, home: Path
) -> None:
    live = engine()
    console = serve()
    opened(page, console, live)
    say(page, "write apples please")
    shown(page, "write apples please")
    shown(page, 'apples"}')
    log = page.get_by_role("log", name="What was said")
    log.locator(".entry", has_text="write apples please").get_by_text("heard").wait_for()
    page.get_by_role("button", name="Pause").click()
    (paused,) = until(lambda: live.happened("heard", "pause"))
    log.locator(".entry", has_text="pause").get_by_text("heard").wait_for()
    say(page, "write pears please")  # words that arrive while it waits
    page.wait_for_timeout(2_000)  # five turns, if it did not wait
    page.get_by_role("button", name="Resume").click()
    shown(page, 'pears"}')
    stopped(page, live)
    walk = live.walk(live.attempt())
    said = {each.kind if each.kind != "say" else each.text: each for each in live.said()}
    assert [each.by for each in said.values()] == [ME] * 5
    deeds = [json.loads(each) for each in console.trail.read_text().splitlines()]
    done = {one.get("text", ""): other["at"] for one, other in zip(deeds[::2], deeds[1::2], strict=True)}
    for fruit in ("apples", "pears"):
        word = said[f"write {fruit} please"]
        place = next(i for i, node in enumerate(walk) if f"write {fruit}" in node.message.text)
        assert walk[place].author is Author.PERSON and called(walk[place + 1]) == f"write {fruit}"
        later = next(
            i for i, node in enumerate(walk) if node.author is Author.POLICY and node.started > done[word.text]
        )
        assert later > place, "no turn that began after the words were said lacks them"
    resumed = said["resume"].at
    assert resumed - paused.at > 1.5
    assert not [node for node in actions(walk) if paused.at < node.started < resumed], "it waited"
    kept = {(each.attributes["kind"], each.by) for each in live.supervisions()}
    assert kept == {(kind, ME) for kind in ("say", "pause", "resume", "stop")}


def test_going_back_to_a_turn_and_taking_this_instead(serve: Serve, engine: Start, page: Any, home: Path) -> None:
    live = engine(snapshots={"every": 1})
    opened(page, serve(), live)
    row = jumped(page, 2)  # the list follows the end no more
    until(lambda: len(actions(live.walk())) >= 14)
    page.get_by_label("Turns", exact=True).get_by_text(re.compile("1[4-9] turns|[2-9][0-9] turns")).wait_for()
    assert in_sight(row)
    page.keyboard.press("o")
    row.get_by_role("button", name="Back to here").click()
    page.get_by_label("Words").fill('{"name": "write", "arguments": {"text": "instead"}}')
    page.get_by_label("Why").fill("a better line")
    page.get_by_role("button", name="Send").click()
    page.get_by_role("link", name="goes on as try 0.1").click()
    shown(page, 'instead"}')
    page.get_by_role("listitem", name="turn 2 person assistant").get_by_text("instead").first.wait_for()
    page.get_by_role("listitem", name="turn 3 policy assistant").wait_for()
    page.get_by_role("tab", name="Branches").click()
    page.get_by_role("treeitem").get_by_role("button", name="Branch").nth(2).wait_for()
    stopped(page, live)
    left, gone_on = sorted(live.trajectories(), key=lambda each: each.attempt)
    assert left.superseded and not gone_on.superseded
    old, new = live.walk(left.id), live.walk(gone_on.id)
    taken = actions(new)[1]
    assert taken.author is Author.PERSON and called(taken) == "write instead"
    assert taken.attributes["instead_of"] == actions(old)[1].id and taken.attributes["by"] == ME
    answer = next(node for node in new if node.parent_id == taken.id)
    assert answer.message.text == "2 lines; write instead", "the environment is where turn 2 began"
    masked = [each for each in live.supervisions() if each.verdict == "mask"]
    assert [(each.node_id, each.reason, each.by) for each in masked] == [(actions(old)[1].id, "a better line", ME)]


def test_an_action_is_edited_turns_judged_and_actions_forbidden(
    serve: Serve, engine: Start, page: Any, home: Path
) -> None:
    live = engine(snapshots={"every": 1})
    opened(page, serve(), live)
    until(lambda: len(actions(live.walk())) >= 3)
    say(page, "well begun", kind="good", turn=1)
    jumped(page, 1).get_by_text(f"good · {ME}").wait_for()
    say(page, '{"name": "write", "arguments": {"text": "edited"}}', kind="edit", turn=1)
    page.get_by_role("link", name="goes on as try 0.1").click()
    shown(page, 'edited"}')
    page.get_by_role("listitem", name="turn 1 person assistant").get_by_text("edited").first.wait_for()
    say(page, "plums", kind="forbid", why="out of season")
    say(page, "write plums")
    shown(page, "forbids actions that match")
    page.get_by_text("refused", exact=True).first.wait_for()
    stopped(page, live)
    walk = live.walk(live.attempt(trial=1))
    first = actions(walk)[0]
    assert first.author is Author.PERSON and called(first) == "write edited"
    refused = next(node for node in walk if "refused" in node.attributes)
    assert called(refused) == "write plums"
    assert not any("write plums" in node.message.text for node in walk if node.author is Author.ENVIRONMENT)
    kinds = {(each.attributes["kind"], each.verdict, each.reason) for each in live.supervisions()}
    assert ("good", "good", "well begun") in kinds and ("forbid", "mask", "forbidden: plums") in kinds


def test_an_agent_that_waits_is_approved_rejected_and_edited(
    serve: Serve, engine: Start, page: Any, home: Path
) -> None:
    live = engine(guidance={"approve": "risky"})
    opened(page, serve(), live)
    asks = page.get_by_label("Waiting for approval")

    def asked(number: int) -> None:
        say(page, "delete it all")
        until(lambda: len(live.happened("waiting")) == number)
        asks.get_by_text("delete_lines").wait_for()

    asked(1)
    page.get_by_label("Why").fill("go on")
    asks.get_by_role("button", name="Approve").click()
    shown(page, "0 lines; delete_lines")
    asks.get_by_text("delete_lines").wait_for(state="detached")
    asked(2)
    page.get_by_label("Why").fill("keep them")
    asks.get_by_role("button", name="Reject").click()
    shown(page, f"{ME}, who watches this run, rejected this action: keep them")
    asked(3)
    asks.get_by_role("button", name="Edit").click()
    until(lambda: "delete_lines" in page.get_by_label("Words").input_value())
    page.get_by_label("Words").fill('{"name": "write", "arguments": {"text": "kept"}}')
    page.get_by_role("button", name="Send").click()
    shown(page, 'kept"}')
    stopped(page, live)
    walk = live.walk(live.attempt())
    waited = [node for node in walk if "asked" in node.attributes]
    assert [called(node) for node in waited] == ["delete_lines", "delete_lines"], "the edited one stands beside"
    kinds = [each.attributes["kind"] for each in live.supervisions() if each.attributes["kind"] in DECISIONS]
    assert sorted(kinds) == ["approve", "edit", "edit", "reject"]
    reasons = {each.attributes["kind"]: each.reason for each in live.supervisions()}
    assert reasons["approve"] == "go on" and reasons["reject"] == "keep them"
    emptied = [node.message.text for node in walk if node.message.text.startswith("0 lines")]
    assert emptied == ["0 lines; delete_lines "], "only what was approved was done"


DECISIONS = ("approve", "reject", "edit")


def test_two_people_at_once_stay_told_apart(serve: Serve, engine: Start, page: Any, home: Path, browser: Any) -> None:
    from silva.console.users import User, Users, hashed

    people = [("ann", "admin"), ("ben", "guide")]
    live = engine()
    console = serve(users=Users(tuple(User(name=name, role=role, hash=hashed(name)) for name, role in people)))
    other = browser.new_context()
    second = other.new_page()
    for one, name in ((page, "ann"), (second, "ben")):
        one.goto(f"{console.url}/?token={name}")
        one.goto(f"{console.url}/#/run/live/{live.attempt()}")
        one.get_by_role("list", name="Trajectory", exact=True).get_by_text("write(").first.wait_for()
    page.get_by_role("button", name="Pause").click()
    until(lambda: live.happened("heard", "pause"))
    say(page, "write apples")
    say(second, "write pears")
    for one in (page, second):
        log = one.get_by_role("log", name="What was said")
        log.locator(".entry", has_text="write apples").get_by_text("ann").wait_for()
        log.locator(".entry", has_text="write pears").get_by_text("ben").wait_for()
    second.get_by_role("button", name="Resume").click()
    shown(page, 'apples"}')
    stopped(page, live)
    other.close()
    walk = live.walk(live.attempt())
    (heard,) = [node for node in walk if node.author is Author.PERSON]
    assert heard.message.text == (
        "[ann, a person who watches this run, says:]\nwrite apples\n\n"
        "[ben, a person who watches this run, says:]\nwrite pears"
    )
    assert {(each.attributes["kind"], each.by) for each in live.supervisions()} == {
        ("pause", "ann"),
        ("say", "ann"),
        ("say", "ben"),
        ("resume", "ben"),
        ("stop", "ann"),
    }

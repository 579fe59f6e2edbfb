"""What people may not do, and what an agent or a person may not do to a browser: roles, markup, messages far too long;
against a live engine."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from console_lakes import live_run
from consoles import Console, shown, until
from echoing import HOSTILE
from live_engines import Engine, called

from silva.console.users import User, Users, hashed
from silva.console.view import MOST_TEXT
from silva.guide import words as words_of
from silva.guide.word import MOST_CHARS
from silva.lake import Lake
from silva.tree.actions.visible import visible

pytestmark = pytest.mark.slow

Serve = Callable[..., Console]
Start = Callable[..., Engine]
SCRIPT = "<script>window.hacked=1</script>"


def people(*names: tuple[str, str]) -> Users:
    """Everybody's token is their name."""
    return Users(tuple(User(name=name, role=role, hash=hashed(name)) for name, role in names))


def test_a_viewer_cannot_guide_and_a_guide_cannot_administer(
    serve: Serve, writer: Lake, page: Any, home: Path, browser: Any
) -> None:
    grower = live_run(writer)
    console = serve(users=people(("vera", "viewer"), ("gus", "guide"), ("ada", "admin")))
    where = f"{console.url}/#/run/live/{grower.id}"
    page.goto(f"{console.url}/?token=vera")
    page.goto(where)
    page.get_by_text("You are a viewer here: you see what is said.").wait_for()
    page.get_by_label("Jump to turn").fill("1")
    page.keyboard.press("Enter")
    page.get_by_role("listitem", name="turn 1 policy assistant").click()
    page.get_by_role("button", name="Context").wait_for()
    for name in ("Send", "Pause", "Stop", "Good", "Bad", "Back to here", "Save data set"):
        assert page.get_by_role("button", name=name, exact=True).count() == 0, name
    page.keyboard.press("s")  # the key that goes to the words
    asked = """async ([path, body]) => {
        const answer = await fetch(path, {method: "POST", headers: {"content-type": "application/json"}, body});
        return [answer.status, (await answer.json()).error];
    }"""
    orders = [
        ("say", {"run": "live", "kind": "stop"}),
        ("label", {"run": "live", "node": "x", "verdict": "bad"}),
        ("dataset", {"name": "mine"}),
    ]
    for path, body in orders:
        told = page.evaluate(asked, [f"/api/{path}", json.dumps(body)])
        assert told == [403, "this takes the role guide, and vera has the role viewer here"], path
    assert not words_of(str(home / "lake"), "live") and not console.trail.exists() and not (home / "datasets").exists()
    assert page.get_by_role("link", name="Trail").count() == 0

    other = browser.new_context()
    second = other.new_page()
    second.goto(f"{console.url}/?token=gus")
    second.goto(where)
    second.get_by_label("Words").fill("hello")
    second.get_by_role("button", name="Send").click()
    second.get_by_role("log", name="What was said").get_by_text("hello").wait_for()
    assert second.get_by_role("link", name="Trail").count() == 0
    second.goto(f"{console.url}/#/trail")
    second.get_by_role("alert").get_by_text("this takes the role admin, and gus has the role guide here").wait_for()
    other.close()

    page.goto(f"{console.url}/?token=ada")
    page.get_by_role("link", name="Trail").click()
    trail = page.get_by_role("table", name="Trail")
    trail.get_by_text("gus (guide)").first.wait_for()
    trail.get_by_text("text: hello").wait_for()


def test_markup_of_a_live_agent_its_tools_tasks_and_people_never_runs(
    serve: Serve, engine: Start, page: Any, home: Path
) -> None:
    live = engine(split="hostile", tasks=2, guidance={"approve": "risky"}, seconds=1.0)
    ann = "ann <img src=x onerror=alert(1)>"
    console = serve(users=Users((User(name=ann, role="admin", hash=hashed("ann")),)))
    page.goto(f"{console.url}/?token=ann")
    page.goto(f"{console.url}/#/run/live/{live.attempt()}")
    turns = page.get_by_role("list", name="Trajectory", exact=True)
    turns.get_by_text(SCRIPT).first.wait_for()
    page.get_by_label("Tasks").get_by_text(SCRIPT).first.wait_for()
    page.get_by_label("Words").fill(f"delete {HOSTILE}")
    page.get_by_label("Why").fill(HOSTILE)
    page.get_by_role("button", name="Send").click()
    asks = page.get_by_label("Waiting for approval")
    asks.get_by_text(SCRIPT).first.wait_for()
    turns.get_by_text(f"delete {HOSTILE}").first.wait_for()
    page.get_by_label("Why").fill(HOSTILE)
    asks.get_by_role("button", name="Reject").click()
    turns.get_by_text(f"rejected this action: {HOSTILE}").first.wait_for()
    page.get_by_role("button", name="Unfold or fold all").click()
    turns.get_by_role("group", name="call of write").get_by_text(SCRIPT).locator("visible=true").first.wait_for()
    page.get_by_role("listitem", name="policy assistant").get_by_role("button", name="Context").first.click()
    page.get_by_role("dialog", name="Exact context").get_by_text(SCRIPT).locator("visible=true").first.wait_for()
    page.keyboard.press("Escape")
    page.get_by_role("tab", name="Branches").click()
    page.get_by_role("tabpanel", name="Branches").get_by_text(SCRIPT).locator("visible=true").first.wait_for()
    for where in ("/runs", "/lake", f"/compare/{live.attempt(0)}/{live.attempt(1)}", "/trail"):
        page.goto(f"{console.url}/#{where}")
        words = SCRIPT if where != "/runs" else "live"
        page.locator("#page").get_by_text(words).locator("visible=true").first.wait_for()
    page.goto(f"{console.url}/#/lake?tab=Turns")
    page.get_by_label("Words in turns").fill("hacked")
    page.keyboard.press("Enter")
    page.get_by_role("article").get_by_text(SCRIPT).locator("visible=true").first.wait_for()
    assert page.evaluate("window.hacked") is None
    made = "#page script, #page svg[onload], #page b:text-is('bold'), img[src='x'], #said script, #said img"
    assert page.locator(made).count() == 0
    # and the `page` fixture fails the test if any dialog opened or any script threw


def test_a_message_of_a_megabyte_is_refused_in_a_line_and_one_at_the_limit_is_heard(
    serve: Serve, engine: Start, page: Any, home: Path
) -> None:
    live = engine()
    console = serve()
    page.goto(console.at())
    page.goto(f"{console.url}/#/run/live/{live.attempt()}")
    turns = page.get_by_role("list", name="Trajectory", exact=True)
    turns.get_by_text("write(").first.wait_for()
    words = page.get_by_label("Words")
    words.fill("x" * 2**20)
    page.get_by_role("button", name="Send").click()
    page.get_by_text(
        "A word may hold 64,000 characters, this one has 1,048,576: put long texts into a file."
    ).wait_for()
    assert words.evaluate("field => field.value.length") == 2**20, "nothing is lost"
    assert live.said() == []
    for size, status, line in ((2**20, 400, "a word may hold 64,000 characters"), (3 * 2**20, 413, "is larger than")):
        told = page.evaluate(
            """async (size) => {
                const body = JSON.stringify({run: "live", kind: "say", text: "x".repeat(size)});
                const headers = {"content-type": "application/json"};
                const answer = await fetch("/api/say", {method: "POST", headers, body});
                return [answer.status, (await answer.json()).error];
            }""",
            size,
        )
        assert told[0] == status and line in told[1] and len(told[1]) < 200, told
    assert live.said() == []
    text = "write limit " + "é" * (MOST_CHARS - 13) + "Z"
    words.fill(text)
    page.get_by_role("button", name="Send").click()
    log = page.get_by_role("log", name="What was said")
    log.locator("pre", has_text="write limit").wait_for()
    assert log.locator("pre", has_text="write limit").evaluate("each => each.textContent") == text
    shown(page, 'limit"}')
    (said,) = live.said()
    assert said.text == text
    page.get_by_role("button", name="Pause").click()
    until(lambda: live.happened("heard", "pause"))
    person = page.get_by_role("listitem", name="person user")
    person.click()
    until(lambda: text in (person.locator(".body").first.text_content() or ""))
    page.get_by_role("button", name="Resume").click()

    words.fill(f"recite y {2**20}")  # the agent and its tool may say what they like
    page.get_by_role("button", name="Send").click()
    until(lambda: any(called(node).startswith("recite") for node in live.walk()))
    page.get_by_role("button", name="Pause").click()
    shown(page, "y" * 40)
    row = page.get_by_role("listitem", name="policy assistant").filter(has_text="y" * 40)
    row.first.click()
    row.first.get_by_text("characters more").first.wait_for()
    given = row.first.locator("pre.text").first.evaluate("each => each.textContent")
    assert len(given) == MOST_TEXT, "a page is given so much of one text, and told how much more there is"
    page.get_by_label("Trajectory in figures").wait_for()


def test_what_hides_in_a_text_is_shown_alike_by_page_and_terminal(serve: Serve, writer: Lake, page: Any) -> None:
    live_run(writer)
    page.goto(serve().at())
    drawn = """async (points) => {
        const { visible } = await import("/static/rendered.js");
        return points.map((some) => visible(String.fromCodePoint(...some))
            .map((each) => typeof each === "string" ? each : `<${each.textContent}>`).join(""));
    }"""
    assigned = [code for code in range(0x110000) if unicodedata.category(chr(code)) not in ("Cn", "Co", "Cs")]
    # All letters there are, many in one text; of those that nobody has given a meaning yet, and surrogates, a few.
    chunks = [assigned[start : start + 500] for start in range(0, len(assigned), 500)]
    chunks += [[65, 0xD800, 66], [0xDFFF, 65], [0xE000, 0x10FFFD, 0x0378], [0xFFFF, 65, 0x10FFFF], []]
    for given, made in zip(chunks, page.evaluate(drawn, chunks), strict=True):
        assert made == visible("".join(map(chr, given))), [hex(code) for code in given[:1]]

"""A page that moves does not get into a person's way: what is scrolled to, typed, pressed or asked for stays theirs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from console_lakes import Grower, ended_run, live_run
from consoles import Console, until

from silva.lake import Lake

pytestmark = pytest.mark.slow

Serve = Callable[..., Console]


def opened(page: Any, console: Console, grower: Grower) -> Any:
    """The run's page; its list of turns."""
    page.goto(console.at())
    page.goto(f"{console.url}/#/run/live/{grower.id}")
    return page.get_by_role("list", name="Trajectory", exact=True)


def test_who_scrolls_up_or_types_a_turn_is_left_in_peace_while_turns_come(
    writer: Lake, serve: Serve, page: Any
) -> None:
    grower = live_run(writer, 60)
    turns = opened(page, serve(), grower)
    turns.get_by_text("step 60").wait_for()
    writer.append_sync(grower.turn())
    turns.get_by_text("step 61").wait_for()  # who is at the end is kept there
    page.get_by_label("Kind of word").select_option("back")
    number = page.get_by_label("Turn", exact=True)
    number.fill("7")
    turns.hover()
    for _ in range(12):
        page.mouse.wheel(0, -400)
        page.wait_for_timeout(50)
    top = until(
        lambda: turns.evaluate("list => list.scrollTop < list.scrollHeight - 3 * list.clientHeight && list.scrollTop")
    )
    for _ in range(3):
        writer.append_sync(grower.turn())
    page.get_by_label("Turns", exact=True).get_by_text("64 turns").wait_for()
    page.wait_for_timeout(300)
    assert abs(turns.evaluate("list => list.scrollTop") - top) < 200
    assert number.input_value() == "7"
    turns.focus()
    page.keyboard.press("G")
    turns.get_by_text("step 64").wait_for()
    writer.append_sync(grower.turn())
    turns.get_by_text("step 65").wait_for()


def test_what_is_pressed_while_the_page_moves_gets_its_click(writer: Lake, serve: Serve, page: Any) -> None:
    writer.append_sync(ended_run("done", ["terminal/a"]))
    grower = live_run(writer, 2)
    console = serve()
    page.goto(console.at())
    row = page.get_by_role("table", name="Runs").get_by_role("row", name="done")
    row.wait_for()
    figures = page.get_by_label("Run in figures")
    figures.get_by_role("heading", name="live").wait_for()
    figures.get_by_text("Configuration").click()
    box = row.get_by_text("finished").bounding_box()
    page.mouse.move(box["x"] + 5, box["y"] + 5)
    page.mouse.down()
    with page.expect_response("**/api/run?run=live"):
        writer.append_sync(grower.turn())
    page.wait_for_timeout(300)
    page.mouse.up()
    figures.get_by_role("heading", name="done").wait_for()
    configuration = figures.locator("details", has=page.get_by_text("Configuration"))
    assert configuration.evaluate("each => each.open"), "what was unfolded stays so"
    others = figures.locator("details", has_not=page.get_by_text("Configuration"))
    assert not any(each.evaluate("each => each.open") for each in others.all()), "and nothing else was unfolded"


def test_an_answer_that_comes_late_shows_nothing_old(writer: Lake, serve: Serve, page: Any) -> None:
    writer.append_sync(ended_run("done", ["terminal/a", "terminal/b"]))
    console = serve()
    held: list[Any] = []
    page.route("**/api/runs*", lambda route: held.append(route))
    page.goto(console.at())
    until(lambda: page.wait_for_timeout(50) or held)
    page.goto(f"{console.url}/#/lake")
    page.get_by_role("listitem", name="trajectory terminal/a 0.0 of done").wait_for()
    for route in held:
        route.continue_()
    page.wait_for_timeout(500)
    assert page.get_by_role("heading", name="Lake").count() == 1
    assert page.get_by_role("heading", name="Runs", exact=True).count() == 0

    slow: list[Any] = []
    page.route("**/api/attempts?*where=score*", lambda route: slow.append(route))
    page.get_by_label("Condition on trajectories").fill("score >= 1")
    page.keyboard.press("Enter")
    until(lambda: page.wait_for_timeout(50) or slow)
    page.get_by_label("Condition on trajectories").fill("turns > 1")
    page.get_by_role("button", name="Filter").click()
    found = page.get_by_role("status", name="Trajectories found")
    found.get_by_text("2 trajectories").wait_for()
    slow[0].continue_()
    page.wait_for_timeout(500)
    assert found.text_content() == "2 trajectories"


def test_what_a_page_let_go_of_while_a_long_run_went_on_is_there_again_when_looked_at(
    writer: Lake, serve: Serve, page: Any
) -> None:
    grower = live_run(writer, 20)
    turns = opened(page, serve(), grower)
    turns.get_by_text("step 20").wait_for()
    for _ in range(40):  # 800 nodes more than were there
        writer.append_sync([node for _ in range(10) for node in grower.turn()])
        page.wait_for_timeout(60)
    page.get_by_label("Turns", exact=True).get_by_text("420 turns").wait_for()
    turns.get_by_text("step 420").wait_for()
    turns.focus()
    page.keyboard.press("g")
    page.get_by_label("Jump to turn").fill("3")
    page.keyboard.press("Enter")
    turns.get_by_text("step 3", exact=False).first.wait_for()
    until(lambda: turns.get_by_text("…", exact=True).count() == 0)
    page.keyboard.press("Enter")  # unfolds it
    turns.get_by_role("button", name="Good").first.click()
    page.get_by_text("good: turn 3").wait_for()

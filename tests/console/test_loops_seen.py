"""The pages of loops: what they are told while a loop runs, and in a real browser what a person sees of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import pytest
from console_lakes import Grower, run_record, task_record
from consoles import Console
from loop_folders import entry, running_loop

from silva.lake import Lake
from silva.loops.kernel.loop import Loop


@pytest.fixture
def loop(home: Path) -> Loop[Any]:
    """A loop whose second stage runs, around a lake with two steps that its report names as a pair."""
    grower = Grower("done", "terminal/t")
    steps = [grower.turn("ls -l")[0], grower.turn("rm -rf /")[0]]
    with Lake.open(home / "lake") as lake:
        lake.append_sync([run_record("done", finished=True), task_record("terminal/t"), *grower.nodes, grower.end()])
    return running_loop(home, steps[0].id, steps[1].id)


def asked(console: Console, name: str, **query: str) -> Any:
    headers = {"Authorization": f"Bearer {console.token}"}
    with urlopen(Request(f"{console.url}/api/{name}?{urlencode(query)}", headers=headers), timeout=60) as reply:
        return json.load(reply)


def test_a_loop_is_told_as_it_stands_and_what_has_not_changed_is_not_sent_again(
    home: Path, loop: Loop[Any], serve: Callable[..., Console]
) -> None:
    other = home / "others" / "broken"
    other.mkdir(parents=True)
    (other / "loop.yaml").write_text("loop: no-such-kind\n", encoding="utf-8")
    console = serve(loops=[home / "others"])
    own, broken = asked(console, "loops")["loops"]
    assert (own["kind"], own["state"], own["done"], own["here"]) == ("flywheel", "stopped", 1, True)
    assert "no kind of loop 'no-such-kind'" in broken["fault"]
    told = asked(console, "loop", id=own["id"])
    assert [row["progress"] for row in told["stages"][:3]] == ["", "3 of 9 episodes", ""]
    (pair,) = told["shown"]["pairs"]
    assert "ls -l" in pair["chosen"] and "rm -rf /" in pair["rejected"]
    assert [line["kind"] for line in told["shown"]["versions"][0]["diff"]] == ["@", " ", "-", "+"]
    again = asked(console, "loop", id=own["id"], seen=told["look"])
    assert "shown" not in again and again["stages"] == told["stages"]
    entry(loop, "survey", "ended", outputs={"episodes": 9, "success": 0.5})
    changed = asked(console, "loop", id=own["id"], seen=told["look"])
    assert "shown" in changed and changed["stages"][1]["words"] == "9 episodes, success 50.0 %"
    with pytest.raises(HTTPError) as refused:
        asked(console, "loop", id=str(home))  # a folder is no id
    assert refused.value.code == 400


@pytest.mark.slow
def test_a_loop_is_watched_in_a_browser_while_it_runs(
    loop: Loop[Any], serve: Callable[..., Console], page: Any
) -> None:
    page.goto(serve().at())
    page.get_by_role("link", name="Loops").click()
    page.get_by_role("table", name="Loops").get_by_role("link").click()
    page.get_by_text("3 of 9 episodes").wait_for()
    page.get_by_text("put the <b>key</b>").wait_for()
    assert page.locator("section[aria-label='Success over steps'] svg g path.of").count() == 2
    page.get_by_role("table", name="Pairs").get_by_text("rm -rf /").first.wait_for()
    page.get_by_text("rolled back").click()
    assert page.locator(".versions .diff .plus").inner_text().split() == ["+", "return", "raw[:9]", "#", "<i>U+202E"]
    entry(loop, "survey", "ended", outputs={"episodes": 9, "success": 0.5})
    page.get_by_text("9 episodes, success 50.0 %").wait_for()  # nobody reloaded it
    assert page.locator(".versions details[open]").count() == 1

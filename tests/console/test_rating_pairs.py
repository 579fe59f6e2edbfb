"""People rate pairs of steps: blind, under their names, in the lake; how far they agree; and pairs at their word."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import pytest
from console_lakes import Grower, run_record, task_record
from consoles import Console

from silva.cli.curate import app as curate
from silva.console.users import User, Users, hashed
from silva.curate.pairs import StepPair, read_pairs, write_pairs
from silva.curate.ratings import judged, key, pairs_to_rate, ratings
from silva.lake import Lake
from silva.loops.line.judged import at_the_word_of

PEOPLE = {"ann": "guide", "ben": "guide", "vic": "viewer"}


@pytest.fixture
def pairs(home: Path) -> list[StepPair]:
    """Four pairs of one run: behind the same words a good step and a bad one."""
    with Lake.open(home / "lake") as lake:
        lake.append_sync([run_record("done", finished=True)])
        for task in ("t/a", "t/b", "t/c", "t/d"):
            tries = [Grower("done", task, index) for index in range(2)]
            for each, command in zip(tries, ("good --well", "bad --ly"), strict=True):
                each.turn(command)
            ends = [each.end(score=score) for each, score in zip(tries, (1.0, 0.0), strict=True)]
            lake.append_sync([task_record(task), *(node for each in tries for node in each.nodes), *ends])
    with Lake.open(home / "lake", mode="read") as lake:
        return pairs_to_rate(lake, "done")


def asked(console: Console, who: str, name: str, body: Any = None, **query: str) -> Any:
    headers = {"Authorization": f"Bearer {who}", "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    with urlopen(Request(f"{console.url}/api/{name}?{urlencode(query)}", data, headers), timeout=60) as reply:
        return json.load(reply)


def rate(console: Console, who: str, wanted: Callable[[int], str]) -> list[str]:
    """Rate every pair: of the pair at a place the step that says `wanted`, or neither where that is ""."""
    lefts: list[str] = []
    for place in range(4):
        shown = asked(console, who, "rating", of="run/done")
        pair, text = shown["pair"], json.dumps(shown["pair"])
        assert shown["place"] == place and shown["rated"] == place
        assert "score" not in text and "gap" not in text and "node" not in text  # nothing tells which was chosen
        said = {side: json.dumps(pair[side]) for side in ("left", "right")}
        better = next((side for side in said if wanted(place) and wanted(place) in said[side]), "equal")
        asked(console, who, "rate", {"of": "run/done", "pair": pair["key"], "better": better, "reason": "so"})
        lefts.append("good" if "good" in said["left"] else "bad")
    return lefts


@pytest.mark.slow
def test_people_rate_blind_and_their_word_is_in_the_lake_and_in_the_pairs(
    home: Path, pairs: list[StepPair], serve: Callable[..., Console], capsys: pytest.CaptureFixture[str]
) -> None:
    users = tuple(User(name=name, role=role, hash=hashed(name)) for name, role in PEOPLE.items())
    console = serve(users=Users(users))
    assert len(pairs) == 4
    sides = [rate(console, "ann", lambda place: "good" if place < 3 else "bad")]
    held = asked(console, "ben", "agreement", of="run/done")
    assert held["held"] is False and held["agreement"][0]["agree"] == 0.75
    sides.append(rate(console, "ben", lambda place: ("good", "bad", "", "bad")[place]))
    assert sides[0] != sides[1] and {"good", "bad"} == {*sides[0], *sides[1]}  # who sees what on the left is drawn
    with pytest.raises(HTTPError) as refused:
        asked(console, "vic", "rate", {"of": "run/done", "pair": key(pairs[0]), "better": "left"})
    assert refused.value.code == 403
    with pytest.raises(HTTPError) as refused:
        asked(console, "ann", "rate", {"of": "run/done", "pair": "none", "better": "left"})
    assert refused.value.code == 400 and '"rate pair"' in console.trail.read_text()

    with Lake.open(home / "lake", mode="read") as lake:
        said = ratings(lake, pairs)
        kept = lake.supervisions()
    assert [(each.source, each.verdict, each.masks) for each in kept] == [("person", "note", None)] * 8
    assert {each.by for each in kept} == {"ann", "ben"} and all(each.at and each.reason == "so" for each in kept)
    # ann: good good good bad; ben: good bad neither bad; the verifier: good four times
    table = {
        (each["left"], each["right"]): each for each in asked(console, "vic", "agreement", of="run/done")["agreement"]
    }
    two = table["person ann", "person ben"]
    assert (two["pairs"], two["agree"], two["decided"]) == (4, 0.5, 3) and two["agree_decided"] == pytest.approx(2 / 3)
    assert table["most people", "verifier score"]["agree"] == 0.25
    people, both = judged(pairs, said, "people"), judged(pairs, said, "both")
    order = sorted(pairs, key=lambda each: asked(console, "ann", "rating", of="run/done", at=key(each))["place"])
    turned = {key(each) for each in people if key(each) in {key(p) for p in pairs if p.chosen_id == each.rejected_id}}
    assert [key(each) in turned for each in order] == [False, False, False, True]
    assert {key(each) for each in people} == {
        key(order[place]) for place in (0, 3)
    }  # of the others as many say one thing
    assert {each.by for each in people} == {"people"} and len(both) == 2 and judged(pairs, said, "verifier") == pairs

    write_pairs(home / "pairs.jsonl", [*pairs])
    words = ["--pairs", str(home / "pairs.jsonl"), "--lake", str(home / "lake"), "-o", str(home / "people.jsonl")]
    assert not curate(["ratings", *words, "--json"], standalone_mode=False)
    told = json.loads(capsys.readouterr().out)
    assert told["people"] == {"ann": 4, "ben": 4} and told["written"] == 2
    assert read_pairs(home / "people.jsonl") == people
    words = ["pairs", "--run", "done", "--of", "tries", "--judged-by", "people", "--lake", str(home / "lake"), "--json"]
    assert not curate(words, standalone_mode=False) and json.loads(capsys.readouterr().out)["pairs"] == 2
    loop: Any = SimpleNamespace(lake=str(home / "lake"))
    assert at_the_word_of("people", loop, pairs, pairs, 4) == people
    assert at_the_word_of("verifier", loop, pairs, pairs, 4) == pairs


@pytest.mark.slow
def test_pairs_are_rated_in_a_browser_by_keyboard(
    home: Path, pairs: list[StepPair], serve: Callable[..., Console], page: Any
) -> None:
    page.goto(serve().at())
    page.goto(f"{page.url}#/rate/run/done")
    told = page.get_by_role("status", name="In short")
    for place, pressed in enumerate(("1", "2", "0")):
        told.filter(has_text=f"Pair {place + 1} of 4; you have rated {place}").wait_for()
        page.keyboard.press(pressed)
    told.filter(has_text="Pair 4 of 4").wait_for()
    assert page.get_by_role("table", name="Agreement").count() == 0
    page.keyboard.press("b")
    told.filter(has_text="You said: neither is better.").wait_for()
    page.keyboard.press("n")
    told.filter(has_text="Pair 4 of 4; you have rated 3").wait_for()
    page.get_by_role("button", name="Right is better").click()
    told.filter(has_text="You have rated all 4 pairs.").wait_for()
    page.get_by_role("table", name="Agreement").get_by_text("verifier score").wait_for()
    with Lake.open(home / "lake", mode="read") as lake:
        assert sorted(each.better == "" for each in ratings(lake, pairs)) == [False, False, False, True]

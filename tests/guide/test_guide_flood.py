"""Much said at once, and people who contradict each other: nothing is lost or comes twice, who said what shows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from guiding import Told, asked, part, said_by, speaker

from silva.rollout.guided_nodes import takes_turn
from silva.tree import Author

SAYS = re.compile(r"\[(\w+), a person who watches this run, says:\]\n")


async def told_of(home: Path, words: dict[int, list[dict[str, Any]]]) -> tuple[Told, list[tuple[str, dict[str, Any]]]]:
    speaker(home, words)
    result, overseer = await part(home)
    return Told(home, result), overseer.events


def numbers(told: Told) -> list[int]:
    """What was really added."""
    refused = {each.node_id for each in told.given if each.verdict == "mask"}
    acted = [node for node in told.walk if takes_turn(node) and node.id not in refused]
    return [call.parsed()["number"] for node in acted for call in node.message.tool_calls]


async def test_500_words_in_the_middle_of_a_turn_stand_before_the_next_in_order_with_who_said_them(home: Path) -> None:
    people = ("ann", "bob", "eve")
    flood = [{"kind": "say", "by": people[n % 3], "text": f"word {n}."} for n in range(500)]
    told, events = await told_of(home, {2: flood})
    (words,) = said_by(Author.PERSON, told.walk)
    parts = SAYS.split(words)[1:]
    assert parts[::2] == [people[n % 3] for n in range(500)]
    assert [text.strip() for text in parts[1::2]] == [f"word {n}." for n in range(500)]
    assert len(told.given) == 500 and len({each.attributes["word"] for each in told.given}) == 500
    assert sum(kind == "heard" for kind, _ in events) == 500
    assert asked(home) == [0, 1, 2, 3, 4], "the agent took as many turns as without"


@pytest.mark.parametrize("at", [2, 4])
async def test_more_than_a_turn_can_take_is_heard_over_several_or_kept(home: Path, at: int) -> None:
    """Five long messages: four before the next turn, one before the turn after; at the last turn none is heard."""
    told, events = await told_of(home, {at: [{"kind": "say", "text": f"{n}" * 60_000} for n in range(5)]})
    heard = [len(SAYS.findall(text)) for text in said_by(Author.PERSON, told.walk)]
    assert heard == ([4, 1] if at == 2 else [])
    assert sorted(each.reason[0] for each in told.given) == ["0", "1", "2", "3", "4"]
    assert [kind for kind, _ in events].count("heard" if at == 2 else "undone") == 5


async def test_words_of_two_people_who_contradict_each_other_are_both_shown_and_named(home: Path) -> None:
    say = [{"kind": "say", "by": "ann", "text": "add no more"}, {"kind": "say", "by": "bob", "text": "go on adding"}]
    told, _ = await told_of(home, {2: say})
    (words,) = said_by(Author.PERSON, told.walk)
    assert SAYS.split(words)[1:] == ["ann", "add no more\n\n", "bob", "go on adding"]
    assert {(each.by, each.reason) for each in told.given} == {("ann", "add no more"), ("bob", "go on adding")}


@pytest.mark.parametrize(("first", "then", "added"), [("forbid", "allow", True), ("allow", "forbid", False)])
async def test_of_a_rule_and_one_that_takes_it_back_the_later_counts(
    home: Path, first: str, then: str, added: bool
) -> None:
    three = '"number": ?3'
    orders = [{"kind": first, "by": "ann", "pattern": three}, {"kind": then, "by": "bob", "pattern": three}]
    told, _ = await told_of(home, {2: orders})
    assert (3 in numbers(told)) is added
    assert {("ann", first, "note"), ("bob", then, "note")} <= {
        (each.by, each.attributes["kind"], each.verdict) for each in told.given
    }

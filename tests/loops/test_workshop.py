"""The example's workshop: what it says was made can be made, and nothing behind what has no tools."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

FILE = Path(__file__).parents[2] / "examples" / "coevolve" / "workshop.py"


def _module() -> ModuleType:
    spec = importlib.util.spec_from_file_location("workshop_example", FILE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SHOP = _module()
MOVES = [
    SHOP.assistant("", SHOP.call("work", {"on": on, "with": material}))
    for on in (*SHOP.LINES, *SHOP.MADE_OF)
    for material in SHOP.MATERIALS
]


async def test_the_expert_makes_everything_in_the_fewest_turns_and_that_ends_it() -> None:
    world = SHOP.Workshop()
    for task in [*list(world.tasks("train"))[:60], *world.tasks("test")]:
        await world.reset(task, 0)
        for _ in SHOP.chain(task.data["thing"]):
            assert not (await world.evaluate()).success
            seen = await world.step(await world.expert())
        assert (await world.evaluate()).success
        assert seen.done and seen.reward == 1


async def test_elsewhere_other_materials_are_tried_too_and_most_errands_end_well() -> None:
    world, done, tried = SHOP.Workshop(), 0, 0
    for task in list(world.tasks("elsewhere"))[:60]:
        await world.reset(task, 0)
        turns = 0
        while not (await world.evaluate()).success and turns < SHOP.TURNS:
            await world.step(await world.expert())
            turns += 1
        done += (await world.evaluate()).success
        tried += turns > len(SHOP.chain(task.data["thing"]))
    assert done > 40 and tried > 20


async def test_what_is_made_of_something_without_tools_cannot_be_made() -> None:
    world, shut = SHOP.Workshop(), 0
    for place in list(world.tasks("train"))[:20]:
        lacks = SHOP.missing(place.data["place"])
        goals = {each.data["thing"]: each for each in await world.goals(place)}
        for thing in SHOP.MADE_OF:
            if set(SHOP.chain(thing)) & set(lacks):
                shut += 1
                await world.reset(await world.task(place, goals[thing]), 0)
                assert not (await world.expert()).tool_calls
                for each in SHOP.chain(thing):
                    worked = {"on": SHOP.MADE_OF[each], "with": SHOP.takes(0)[each]}
                    await world.step(SHOP.assistant("", SHOP.call("work", worked)))
                assert not (await world.evaluate()).success
    assert shut > 20


@given(some.lists(some.sampled_from(MOVES), max_size=10), some.integers(0, 30))
@settings(deadline=None)
async def test_what_was_made_is_a_task_that_its_actions_solve(actions, number) -> None:
    world = SHOP.Workshop()
    place = list(world.tasks("train"))[number]
    for found in await world.achieved(place, actions):
        await world.reset(await world.task(place, found.goal), 0)
        for at in found.kept:
            await world.step(actions[at])
        assert (await world.evaluate()).success


async def test_what_was_begun_anew_takes_nothing_of_what_one_did_before() -> None:
    world = SHOP.Workshop()
    place = next(
        each for each in world.tasks("train") if not {"plank", "frame", "brick"} & set(SHOP.missing(each.data["place"]))
    )
    worked = [{"on": SHOP.MADE_OF[each], "with": SHOP.takes(0)[each]} for each in ("plank", "frame", "brick")]
    actions = [SHOP.assistant("", SHOP.call("work", each)) for each in worked]
    found = [(each.goal.data["thing"], each.kept) for each in await world.achieved(place, actions)]
    assert found == [("plank", (0,)), ("frame", (0, 1)), ("brick", (2,))]


async def test_who_tries_one_material_in_vain_is_in_time_and_who_is_late_sees_what_comes_of_it() -> None:
    world = SHOP.Workshop()
    task = next(each for each in world.tasks("test") if each.data["thing"] == "arch")
    for wrong, made in ((0, True), (1, True), (2, False)):
        seen = await world.reset(task, 0)
        assert seen.messages[-1].text.endswith("Turns: 4.\nMake arch, of stone. You hold: nothing.")
        for turn in range(wrong + 3):
            assert not seen.done
            lost = SHOP.assistant("", SHOP.call("work", {"on": "wood", "with": "none"}))
            seen = await world.step(lost if turn < wrong else await world.expert())
        assert seen.messages[-1].text == "You hold: arch."
        assert seen.done is made and (await world.evaluate()).success is made


async def test_what_one_holds_is_said_whether_anything_came_of_it_or_not() -> None:
    world = SHOP.Workshop()
    task = next(each for each in world.tasks("test") if each.data["thing"] == "crate")
    await world.reset(task, 0)
    said = [(await world.step(await world.expert())).messages[-1].text for _ in range(2)]
    assert said == ["You hold: plank.", "You hold: frame."]
    again = {"on": "wood", "with": SHOP.takes(0)["plank"]}
    for worked, came in (({"on": "brick", "with": "sand"}, "Nothing comes of it. You hold: frame."), (again, said[0])):
        seen = await world.step(SHOP.assistant("", SHOP.call("work", worked)))
        assert seen.messages[-1].text == came


def test_elsewhere_each_thing_takes_the_same_as_here_in_a_third_of_the_workshops() -> None:
    elsewhere = [SHOP.takes(number) for number in SHOP.PLACES["elsewhere"]]
    for thing, here in SHOP.takes(0).items():
        taken = [each[thing] for each in elsewhere]
        assert len(set(taken)) == 3
        assert 0.28 < taken.count(here) / len(taken) < 0.39


async def test_another_split_is_refused_by_name() -> None:
    with pytest.raises(SHOP.UsageError, match="train, test, elsewhere"):
        list(SHOP.Workshop.tasks("dev"))

"""The example's workshop: what it says was made can be made, and what is missing cannot be made up for."""

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
    SHOP.assistant("", SHOP.call("act", {"do": verb, "what": what}))
    for verb, names in (("drop", ["all"]), ("add", SHOP.MATERIALS))
    for what in names
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


async def test_what_needs_a_missing_material_cannot_be_made() -> None:
    world, shut = SHOP.Workshop(), 0
    for place in list(world.tasks("train"))[:20]:
        lacks = SHOP.missing(place.data["place"])
        goals = {each.data["thing"]: each for each in await world.goals(place)}
        for thing in SHOP.MADE_OF:
            takes = [SHOP.TAKES[0][each] for each in SHOP.chain(thing)]
            if set(takes) & set(lacks):
                shut += 1
                await world.reset(await world.task(place, goals[thing]), 0)
                assert not (await world.expert()).tool_calls
                for material in takes:
                    await world.step(SHOP.assistant("", SHOP.call("act", {"do": "add", "what": material})))
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


async def test_who_tries_one_material_in_vain_is_in_time_and_who_is_late_sees_what_comes_of_it() -> None:
    world = SHOP.Workshop()
    task = next(each for each in world.tasks("test") if each.data["thing"] == "arch")
    for wrong, made in ((0, True), (1, True), (2, False)):
        seen = await world.reset(task, 0)
        assert seen.messages[-1].text.endswith("Turns: 4.\nYour hands are empty. To make: brick, wall, arch.")
        for turn in range(wrong + 3):
            assert not seen.done
            lost = SHOP.assistant("", SHOP.call("act", {"do": "add", "what": "none"}))
            seen = await world.step(lost if turn < wrong else await world.expert())
        assert seen.messages[-1].text == "Made: arch. To make: nothing more."
        assert seen.done is made and (await world.evaluate()).success is made


async def test_what_is_still_to_be_made_is_said_and_all_of_it_where_one_holds_something_else() -> None:
    world = SHOP.Workshop()
    task = next(each for each in world.tasks("test") if each.data["thing"] == "crate")
    await world.reset(task, 0)
    said = [(await world.step(await world.expert())).messages[-1].text for _ in range(2)]
    assert said == ["Made: plank. To make: frame, crate.", "Made: frame. To make: crate."]
    dropped = await world.step(SHOP.assistant("", SHOP.call("act", {"do": "drop", "what": "all"})))
    assert dropped.messages[-1].text == "Your hands are empty. To make: plank, frame, crate."


async def test_another_split_is_refused_by_name() -> None:
    with pytest.raises(SHOP.UsageError, match="train, test, elsewhere"):
        list(SHOP.Workshop.tasks("dev"))

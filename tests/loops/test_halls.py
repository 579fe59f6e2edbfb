"""The example's world of halls: what it says was brought about can be carried out, and what a wall hides cannot."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

FILE = Path(__file__).parents[2] / "examples" / "coevolve" / "halls.py"


def _module() -> ModuleType:
    spec = importlib.util.spec_from_file_location("halls_example", FILE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


HALLS = _module()
MOVES = [
    HALLS.assistant("", HALLS.call("act", {"do": verb, "what": what}))
    for verb, names in (("go", HALLS.WINGS), ("use", HALLS.KEYS))
    for what in names
]


async def test_the_expert_reaches_every_hall_in_the_fewest_turns_and_that_ends_it() -> None:
    world = HALLS.Halls()
    for task in [*list(world.tasks("train"))[:60], *world.tasks("test")]:
        await world.reset(task, 0)
        for _ in range(1 + task.data["depth"]):
            assert not (await world.evaluate()).success
            seen = await world.step(await world.expert())
        assert (await world.evaluate()).success
        assert seen.done and seen.reward == 1


async def test_elsewhere_other_keys_are_tried_too_and_most_errands_end_well() -> None:
    world, done, tried = HALLS.Halls(), 0, 0
    tasks = list(world.tasks("elsewhere"))[:60]
    for task in tasks:
        await world.reset(task, 0)
        turns = 0
        while not (await world.evaluate()).success and turns < HALLS.TURNS:
            await world.step(await world.expert())
            turns += 1
        done += (await world.evaluate()).success
        tried += turns > 1 + task.data["depth"]
    assert done > 40 and tried > 20


async def test_what_lies_behind_a_wall_cannot_be_reached() -> None:
    world = HALLS.Halls()
    for place in list(world.tasks("train"))[:20]:
        number = place.data["place"]
        goals = {(each.data["wing"], each.data["depth"]): each for each in await world.goals(place)}
        for hall in set(HALLS.HALLS) - set(HALLS.open_halls(number)):
            await world.reset(await world.task(place, goals[hall]), 0)
            assert not (await world.expert()).tool_calls
            for wing, depth in ((hall[0], deep) for deep in range(hall[1] + 1)):
                action = ("go", wing) if not depth else ("use", HALLS.OPENS[0][wing, depth])
                await world.step(HALLS.assistant("", HALLS.call("act", dict(zip(("do", "what"), action, strict=True)))))
            assert not (await world.evaluate()).success


@given(some.lists(some.sampled_from(MOVES), max_size=10), some.integers(0, 30))
@settings(deadline=None)
async def test_what_was_brought_about_is_a_task_that_its_actions_solve(actions, number) -> None:
    world = HALLS.Halls()
    place = list(world.tasks("train"))[number]
    for found in await world.achieved(place, actions):
        await world.reset(await world.task(place, found.goal), 0)
        for at in found.kept:
            await world.step(actions[at])
        assert (await world.evaluate()).success


async def test_in_time_is_who_tries_one_key_in_vain_and_who_is_late_sees_what_lies_behind() -> None:
    world = HALLS.Halls()
    task = next(each for each in world.tasks("test") if each.data["depth"] == 3)
    for wrong, reached in ((0, True), (1, True), (2, False)):
        seen = await world.reset(task, 0)
        assert f"reach {task.data['wing']} 3 in 5 turns." in seen.messages[-1].text
        for turn in range(wrong + 4):
            assert not seen.done
            lost = HALLS.assistant("", HALLS.call("act", {"do": "use", "what": "none"}))
            seen = await world.step(lost if turn < wrong else await world.expert())
        assert seen.messages[-1].text == f"You are in {task.data['wing']} 3."
        assert seen.done is reached and (await world.evaluate()).success is reached


async def test_another_split_is_refused_by_name() -> None:
    with pytest.raises(HALLS.UsageError, match="train, test, elsewhere"):
        list(HALLS.Halls.tasks("dev"))

"""The example's world of parcels: what it says was brought about can be carried out, and what cannot be done is not."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

FILE = Path(__file__).parents[2] / "examples" / "coevolve" / "parcels.py"


def _module() -> ModuleType:
    spec = importlib.util.spec_from_file_location("parcels_example", FILE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PARCELS = _module()
MOVES = [
    PARCELS.assistant("", PARCELS.call("act", {"do": verb, "what": what})) for verb, what in PARCELS.Names(0).moves()
]


@pytest.mark.parametrize("split", ["train", "test", "elsewhere"])
async def test_the_expert_does_every_errand_in_the_fewest_turns(split: str) -> None:
    world = PARCELS.Parcels()
    for task in list(world.tasks(split))[:60]:
        await world.reset(task, 0)
        turns = 0
        while not (await world.evaluate()).success:
            await world.step(await world.expert())
            turns += 1
        assert turns == 1 + PARCELS.KINDS.index(task.tags[0])


async def test_a_thing_that_is_not_there_cannot_be_brought() -> None:
    world = PARCELS.Parcels()
    (place,) = list(world.tasks("train"))[:1]
    there = {thing for thing, _ in PARCELS.place(0)[0]}
    goal = next(each for each in await world.goals(place) if each.data["thing"] not in there)
    await world.reset(await world.task(place, goal), 0)
    for action in MOVES:
        await world.step(action)
    assert not (await world.evaluate()).success and not (await world.expert()).tool_calls


@given(some.lists(some.sampled_from(MOVES), max_size=6), some.integers(0, 30))
@settings(deadline=None)
async def test_what_was_brought_about_is_a_task_that_its_actions_solve(actions, number) -> None:
    world = PARCELS.Parcels()
    place = list(world.tasks("train"))[number]
    for found in await world.achieved(place, actions):
        await world.reset(await world.task(place, found.goal), 0)
        for at in found.kept:
            await world.step(actions[at])
        assert (await world.evaluate()).success

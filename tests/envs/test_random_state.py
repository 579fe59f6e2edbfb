"""Environments that draw from the global random generators repeat themselves beside others, or it is found out."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from silva.envs import HostPool
from silva.envs.check import check
from silva.envs.protocol import EnvironmentEntry
from silva.tree import assistant

HERE = Path(__file__).parent


def entry(name: str) -> EnvironmentEntry:
    return EnvironmentEntry(
        name=name.lower(), target=f"{HERE / 'random_env.py'}:{name}", summary="", null=1.0, sample=2, source="test"
    )


async def rolls(pool: HostPool, seed: int) -> list[str]:
    async with pool.lease() as env:
        task = (await pool.tasks("test", 1))[0]
        seen = [(await env.reset(task, seed)).messages[0].text]
        for _ in range(4):
            await asyncio.sleep(0)
            seen.append((await env.step(assistant("roll"))).messages[0].text)
        return seen


@pytest.mark.parametrize("mode", ["process", "inline"])
async def test_instances_of_one_process_have_random_states_of_their_own(mode: str) -> None:
    random.seed(5)
    async with HostPool(entry("Dice"), hosts=1, instances_per_host=6, mode=mode) as pool:
        alone = [await rolls(pool, seed) for seed in (1, 2)]
        beside = await asyncio.gather(*(rolls(pool, seed) for seed in (1, 2, 1, 3, 2, 4)))
    assert [beside[0], beside[1]] == alone and beside[2] == beside[0] and beside[4] == beside[1]
    assert len({tuple(each) for each in beside}) == 4
    drawn = random.random()
    assert drawn == random.Random(5).random(), "the process's own stream is left alone"


async def test_what_does_not_repeat_itself_is_found_out() -> None:
    assert (await check(entry("Dice"))).differs == ""
    leaky = await check(entry("Leaky"))
    assert "dice/0 repeats itself alone, and not beside others" in leaky.differs and leaky.holds
    claims = await check(entry("Claims"))
    assert "dice/0 repeats itself alone, and not beside others" in claims.differs
    assert "does not repeat itself with one seed (at the reset)" in (await check(entry("Clock"))).differs

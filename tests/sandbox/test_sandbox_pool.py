"""Admission: never more than there is room for, first come first served, nothing lost when someone gives up."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from silva.errors import SilvaError, UsageError
from silva.sandbox.limits import MIB, Limits
from silva.sandbox.namespaces import Namespaces
from silva.sandbox.pool import Pool, Room
from silva.sandbox.process import Processes
from silva.sandbox.protocol import Spec

SPEC = Spec(limits=Limits(memory=100 * MIB, cpus=0.5))


@pytest.mark.parametrize(
    ("room", "most"),
    [
        (Room(memory=1000 * MIB, cpus=100), 10),
        (Room(memory=1000 * MIB, cpus=2), 4),
        (Room(memory=1000 * MIB, cpus=2, sandboxes=3), 3),
    ],
)
def test_room_by_memory_processors_and_number(room: Room, most: int) -> None:
    assert Pool(None, SPEC, room=room).most == most  # type: ignore[arg-type]


def test_what_can_never_fit_is_refused_at_once() -> None:
    with pytest.raises(UsageError, match=r"no sandbox of 100 MiB and 0\.5 processors fits into 50 MiB"):
        Pool(None, SPEC, room=Room(memory=50 * MIB, cpus=1))  # type: ignore[arg-type]


class Counting:
    """A backend whose sandboxes are nothing, to try the pool's order fast."""

    def __init__(self) -> None:
        self.alive = self.most = self.made = 0

    async def create(self, spec: Spec) -> Counting:
        self.made += 1
        self.alive += 1
        self.most = max(self.most, self.alive)
        await asyncio.sleep(0)
        return self

    async def destroy(self) -> None:
        await asyncio.sleep(0)
        self.alive -= 1


@settings(max_examples=20, deadline=None)
@given(
    most=st.integers(1, 4),
    warm=st.integers(0, 3),
    visits=st.lists(st.tuples(st.integers(0, 3), st.sampled_from([None, 0.0, 0.001])), max_size=20),
)
def test_never_more_than_fit_and_all_come_home(most: int, warm: int, visits: list[tuple[int, float | None]]) -> None:
    async def visit(pool: Pool, steps: int, wait: float | None) -> int:
        try:
            async with pool.take(wait=wait):
                assert pool.out <= most
                for _ in range(steps):
                    await asyncio.sleep(0)
        except SilvaError as error:
            assert "no room for another sandbox" in str(error)
            return 0
        return 1

    async def run() -> None:
        backend = Counting()
        pool = Pool(backend, SPEC, room=Room(memory=10**12, cpus=10**6, sandboxes=most), warm=warm)  # type: ignore[arg-type]
        came = await asyncio.gather(*(visit(pool, *each) for each in visits))
        assert pool.out == 0 and backend.most <= most + warm
        assert sum(came) >= sum(wait is None for _, wait in visits)
        await pool.close()
        assert backend.alive == 0

    asyncio.run(run())


async def test_who_gives_up_leaves_the_line() -> None:
    pool = Pool(Counting(), SPEC, room=Room(memory=10**12, cpus=9, sandboxes=1))  # type: ignore[arg-type]
    async with pool.take():
        with pytest.raises(SilvaError, match="1 of 1 are in use"):
            async with pool.take(wait=0):
                pass
        waiting = asyncio.ensure_future(pool.take().__aenter__())
        await asyncio.sleep(0)
        waiting.cancel()
    async with pool.take(wait=0):
        assert pool.out == 1
    assert pool.out == 0


@pytest.mark.slow
async def test_three_hundred_asked_of_a_small_machine(backend: Namespaces) -> None:
    pool = Pool(backend, SPEC, room=Room(memory=800 * MIB, cpus=16), warm=2)
    await pool.fill()
    seen = 0

    async def one(number: int) -> str:
        nonlocal seen
        async with pool.take() as sandbox:
            seen = max(seen, len(backend.sandboxes))
            return (await sandbox.exec(["echo", str(number)])).text

    said = await asyncio.gather(*(one(number) for number in range(300)))
    assert said == [f"{number}\n" for number in range(300)] and seen <= pool.most + 2
    await pool.close()


async def test_the_pool_takes_any_backend(tmp_path: Path) -> None:
    async with await Processes.open(state=tmp_path) as backend:
        pool = Pool(backend, SPEC, room=Room(memory=10**10, cpus=9))
        async with pool.take() as sandbox:
            assert (await sandbox.exec("echo hi")).text == "hi\n"
        await pool.close()

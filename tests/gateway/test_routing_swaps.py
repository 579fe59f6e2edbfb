"""The router while versions change and backends drain: nothing fails, nothing is mixed."""

from __future__ import annotations

import asyncio

import pytest
from leased import nothing_left, router, settle, use

from silva.errors import UnreachableError, UsageError
from silva.models.gateway.config import Limits
from silva.models.gateway.routing import Refused


async def test_a_swap_lets_nothing_fail_and_mixes_nothing() -> None:
    one = router(backends=2, limit=5, version="v0")
    weights = "v0"
    seen: list[tuple[str, str, str]] = []

    async def request(n: int) -> None:
        async with one.lease(run=f"r{n % 4}", session=str(n % 9)) as lease:
            begun = weights
            await asyncio.sleep(0.001 * (n % 4))
            seen.append((lease.version, begun, weights))
            lease.succeeded(weights)

    async def action(to: str) -> None:
        nonlocal weights
        assert one.in_flight == 0
        weights = "half-loaded"
        await asyncio.sleep(0.01)
        assert one.in_flight == 0
        weights = to

    requests = [asyncio.create_task(request(n)) for n in range(400)]
    for to in ("v1", "v2", "v3"):
        await asyncio.sleep(0.005)
        await one.swap(lambda to=to: action(to), to)
        assert one.version == to
    await asyncio.gather(*requests)
    assert len(seen) == 400
    assert all(told == begun == ended for told, begun, ended in seen)
    assert len({told for told, _, _ in seen}) >= 3
    assert one.snapshot().refused == {} and nothing_left(one)


async def test_a_swap_that_fails_keeps_the_old_version_and_tells() -> None:
    one = router(version="v0")
    hold = asyncio.Event()

    async def action() -> None:
        await hold.wait()
        raise FileNotFoundError("no adapter there")

    swap = asyncio.create_task(one.swap(action, "v1"))
    await settle()
    waiting = asyncio.create_task(use(one))
    await settle()
    assert one.snapshot().stage == "swapping" and one.waiting == 1
    with pytest.raises(UsageError, match="wait for that"):
        await one.swap(action, "v2")
    hold.set()
    with pytest.raises(FileNotFoundError):
        await swap
    assert await waiting == "b0"
    assert (one.version, one.snapshot().error, one.snapshot().stage) == ("v0", "no adapter there", "serving")


@pytest.mark.parametrize("drain_seconds", [None, 0.02])
async def test_a_drain_waits_as_long_as_it_takes_or_is_given_up(drain_seconds) -> None:
    one = router(version="v0")
    swapped: list[str] = []

    async def action() -> None:
        swapped.append("yes")

    hold = asyncio.Event()
    slow = asyncio.create_task(use(one, hold))
    await settle()
    swap = asyncio.create_task(one.swap(action, "v1", drain_seconds=drain_seconds))
    waiting = asyncio.create_task(use(one))
    await asyncio.sleep(0.1)
    if drain_seconds:
        with pytest.raises(UnreachableError, match=r"keeps version 'v0': 1 requests were still in flight"):
            await swap
        assert await waiting == "b0" and not swapped
        hold.set()
    else:
        assert not swap.done() and not waiting.done()
        hold.set()
        await swap
        assert await waiting == "b0" and swapped
    assert await slow == "b0"
    assert one.version == ("v0" if drain_seconds else "v1")


async def test_a_cancelled_swap_resumes() -> None:
    one = router(version="v0")
    hold = asyncio.Event()
    slow = asyncio.create_task(use(one, hold))
    await settle()
    swap = asyncio.create_task(one.swap(settle, "v1"))
    await settle()
    swap.cancel()
    with pytest.raises(asyncio.CancelledError):
        await swap
    assert await use(one) == "b0"
    hold.set()
    await slow
    assert one.version == "v0" and one.snapshot().stage == "serving"


async def test_waiting_for_a_pause_to_end_is_not_too_long() -> None:
    one = router(limits=Limits(wait_seconds=0.02))
    one.pause()
    waiting, hurried = asyncio.create_task(use(one)), asyncio.create_task(use(one, deadline=one.now() + 0.03))
    assert await one.drain()
    with pytest.raises(Refused) as caught:
        await hurried
    assert caught.value.kind == "deadline"
    await asyncio.sleep(0.1)
    assert not waiting.done()
    one.resume()
    assert await waiting == "b0"


async def test_a_switch_drains_nothing_and_late_replies_teach_nothing() -> None:
    one = router(version="v0")
    async with one.lease() as old:
        one.switch("v1")
        async with one.lease() as new:
            assert (old.version, new.version) == ("v0", "v1")
            new.succeeded("v1")
        old.succeeded("v0")
    async with one.lease() as lease:
        assert lease.version == "v1"


async def test_draining_one_backend_sends_it_nothing_more() -> None:
    one = router(backends=2, limit=50)
    hold = asyncio.Event()
    tasks = [asyncio.create_task(use(one, hold)) for _ in range(10)]
    await settle()
    drained = asyncio.create_task(one.fleet.drain("b0"))
    assert not await one.fleet.drain("b0", 0.01)
    assert {await use(one) for _ in range(10)} == {"b1"}
    assert not drained.done()
    hold.set()
    assert await drained
    one.fleet.remove("b0")
    await asyncio.gather(*tasks)
    assert nothing_left(one)

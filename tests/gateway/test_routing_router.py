"""The router on a real loop: waiting, refusing, cancelling, failing over, changing versions. No server needed."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from leased import failure, nothing_left, router, settle, use

from silva.models import ModelError
from silva.models.gateway.config import Health, Limits
from silva.models.gateway.routing import Backend, Refused


async def test_a_thousand_leases_keep_every_limit() -> None:
    one = router(backends=3, limit=7)
    most = Counter[str]()

    async def request(n: int) -> None:
        async with one.lease(session=f"s{n % 50}", run=f"r{n % 5}") as lease:
            state = lease.state
            assert state is not None
            most[lease.backend.name] = max(most[lease.backend.name], state.outstanding)
            await asyncio.sleep(0.0005 * (n % 3))
            lease.succeeded()

    await asyncio.gather(*map(request, range(1000)))
    assert most == {"b0": 7, "b1": 7, "b2": 7}
    assert nothing_left(one)
    assert one.snapshot().granted == 1000
    assert sum(backend.served for backend in one.snapshot().backends) == 1000


async def test_runs_share_by_counts_whatever_they_have_waiting() -> None:
    one = router(limit=2, limits=Limits(waiting=20_000))
    order: list[str] = []

    async def request(run: str, share: float) -> None:
        async with one.lease(run=run, share=share):
            order.append(run)
            await asyncio.sleep(0)

    flood = [asyncio.create_task(request("flood", 1.0)) for _ in range(3000)]
    await settle()
    begun = len(order)
    others = [asyncio.create_task(request("heavy", 3.0)) for _ in range(300)]
    single = asyncio.create_task(request("single", 1.0))
    await single
    assert len(order) - begun <= 12, "a single request waits for about one of each other run's share"
    await asyncio.gather(*others)
    heavy_done = max(index for index, run in enumerate(order) if run == "heavy")
    between = Counter(order[begun : heavy_done + 1])
    assert 95 <= between["flood"] <= 110
    for task in flood:
        task.cancel()
    await asyncio.gather(*flood, return_exceptions=True)
    assert nothing_left(one)


async def test_cancelling_leaves_nothing_behind() -> None:
    one = router(limit=5)
    hold = asyncio.Event()
    tasks = [asyncio.create_task(use(one, hold, run=f"r{n % 3}")) for n in range(200)]
    await settle()
    assert (one.in_flight, one.waiting) == (5, 195)
    for task in tasks[3:150]:
        task.cancel()
    await settle()
    assert (one.in_flight, one.waiting) == (5, 48)
    hold.set()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert nothing_left(one)


async def test_a_place_that_comes_while_one_is_cancelled_is_not_lost() -> None:
    one = router(limit=1)
    async with one.lease():
        waiting = asyncio.create_task(use(one))
        after = asyncio.create_task(use(one))
        await settle()
    waiting.cancel()  # its place was given a moment ago, it does not know yet
    assert await after == "b0"
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert nothing_left(one)


async def test_a_full_line_says_when_to_come_again() -> None:
    one = router(limit=1, limits=Limits(waiting=2))
    hold = asyncio.Event()
    tasks = [asyncio.create_task(use(one, hold)) for _ in range(3)]
    await settle()
    with pytest.raises(Refused, match="2 requests wait already") as caught:
        await use(one)
    assert caught.value.kind == "line_full" and caught.value.retry_after
    hold.set()
    await asyncio.gather(*tasks)
    assert one.snapshot().refused == {"line_full": 1}


async def test_a_wait_ends_at_the_bound_or_the_deadline() -> None:
    one = router(limit=1, limits=Limits(wait_seconds=0.1))
    async with one.lease():
        kinds = await asyncio.gather(
            use(one), use(one, deadline=one.now() + 0.02), use(one, deadline=one.now() - 1), return_exceptions=True
        )
    assert [getattr(one, "kind", one) for one in kinds] == ["too_long", "deadline", "deadline"]
    assert nothing_left(one)


async def test_without_a_backend_requests_wait_a_little_and_are_refused_in_words() -> None:
    one = router(health=Health(every=0.05, open_seconds=0.05))
    one.fleet.mark("b0", False, trouble="connection refused")
    first = asyncio.create_task(use(one))
    await settle()
    assert one.waiting == 1
    with pytest.raises(Refused, match=r"no backend of model policy is up \(b0: connection refused\)") as caught:
        await first
    assert caught.value.kind == "absent" and caught.value.retry_after
    with pytest.raises(Refused) as caught:
        await use(one)  # at once
    one.fleet.mark("b0", True)
    assert await use(one) == "b0"


async def test_a_backend_that_comes_serves_who_waits() -> None:
    one = router(backends=0)
    waiting = [asyncio.create_task(use(one)) for _ in range(3)]
    await settle()
    one.fleet.add(Backend(name="new", url="http://127.0.0.1:9/v1"))
    assert await asyncio.gather(*waiting) == ["new"] * 3


async def test_who_waits_for_an_expected_backend_is_not_refused() -> None:
    one = router(backends=0, limits=Limits(wait_seconds=0.02), health=Health(every=0.01, open_seconds=0.01))
    told: list[tuple[int, int]] = []

    def demand(waiting: int, in_flight: int, now: float) -> None:
        told.append((waiting, in_flight))
        one.fleet.expect("process", 1)

    one.fleet.watch(demand)
    waiting = asyncio.create_task(use(one))
    await asyncio.sleep(0.1)
    assert told == [(1, 0)] and not waiting.done()
    one.fleet.add(Backend(name="new", url="http://127.0.0.1:9/v1"))
    one.fleet.expect("process", 0)
    assert await waiting == "new"


async def test_a_failed_request_goes_elsewhere_and_the_breaker_opens_and_closes() -> None:
    one = router(backends=2, health=Health(breaker=3, open_seconds=0.05), retry_ratio=1.0)
    broken = {"b0"}

    async def request() -> str:
        attempts = one.attempts()
        while True:
            try:
                async with one.lease(exclude=attempts.exclude) as lease:
                    if lease.backend.name in broken:
                        raise failure("unreachable")
                    lease.succeeded()
                    return lease.backend.name
            except ModelError as error:
                if not await attempts.again(error, lease.backend.name):
                    raise

    assert {await request() for _ in range(20)} == {"b1"}
    first, second = one.snapshot().backends
    assert (first.phase, first.served, first.trouble) == ("open", 3, "unreachable happened")
    assert second.served == 20
    broken.clear()
    await asyncio.sleep(0.06)
    assert {await request() for _ in range(20)} == {"b0", "b1"}
    assert one.snapshot().backends[0].phase == "closed"


async def test_who_waits_while_the_only_breaker_is_open_gets_the_probe() -> None:
    one = router(health=Health(breaker=1, open_seconds=0.05))
    with pytest.raises(ModelError):
        async with one.lease():
            raise failure()
    assert one.snapshot().backends[0].phase == "open"
    assert await asyncio.gather(use(one), use(one)) == ["b0", "b0"]
    assert one.snapshot().backends[0].phase == "closed"


async def test_a_retry_waits_for_another_backend_and_does_not_hold_up_the_line() -> None:
    one = router(backends=2, limit=1)
    a, b = one.lease(), one.lease()
    async with b:
        async with a:
            retry = asyncio.create_task(use(one, exclude={a.backend.name}))
            await settle()
            other = asyncio.create_task(use(one))
        assert await other == a.backend.name
        assert not retry.done()
    assert await retry == b.backend.name


async def test_when_all_were_tried_that_is_said_at_once() -> None:
    one = router(backends=2, limit=1)
    with pytest.raises(Refused) as caught:
        await use(one, exclude={"b0", "b1"})
    assert caught.value.kind == "exhausted"
    async with one.lease(exclude={"b0"}):
        waiting = asyncio.create_task(use(one, exclude={"b0"}))
        await settle()
        one.fleet.mark("b1", False)
        with pytest.raises(Refused) as caught:
            await waiting
        assert caught.value.kind == "exhausted"


async def test_retry_after_of_the_only_backend_is_waited_for() -> None:
    one = router()
    with pytest.raises(ModelError):
        async with one.lease():
            raise failure("rate_limit", retry_after=0.05)
    lease = one.lease()
    async with lease:
        assert lease.began >= one.fleet.states()[0].limiter.held_until
    assert one.snapshot().backends[0].phase == "closed", "a 429 is an answer"


async def test_closing_refuses_who_waits_and_who_comes() -> None:
    one = router(limit=1)
    async with one.lease():
        waiting = asyncio.create_task(use(one))
        await settle()
        one.close()
        with pytest.raises(Refused, match="going away"):
            await waiting
    with pytest.raises(Refused, match="going away"):
        await use(one)


async def test_an_outcome_is_told_once_and_inside() -> None:
    one = router()
    lease = one.lease()
    with pytest.raises(RuntimeError):
        lease.succeeded()
    async with lease:
        lease.succeeded()
        with pytest.raises(RuntimeError):
            lease.failed(failure())

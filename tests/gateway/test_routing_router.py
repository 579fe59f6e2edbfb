"""The router on a real loop: waiting, refusing, cancelling, failing over, changing versions. No server needed."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from silva.errors import UnreachableError, UsageError
from silva.models import ModelError
from silva.models.gateway.config import Concurrency, Health, Limits, Route, StaticBackend
from silva.models.gateway.routing import Backend, Refused, Router


def router(backends: int = 1, limit: int = 4, limits: Limits | None = None, **route: object) -> Router:
    settings = {
        "backends": (StaticBackend(url="http://127.0.0.1:1/v1"),),
        "concurrency": Concurrency(start=limit, most=limit),
        **route,
    }
    made = Router("policy", Route(**settings), limits)  # type: ignore[arg-type]
    for n in range(backends):
        made.fleet.add(Backend(name=f"b{n}", url=f"http://127.0.0.1:{n + 1}/v1"))
    return made


def failure(kind: str = "server", retry_after: float | None = None) -> ModelError:
    return ModelError(kind, f"{kind} happened", transient=True, retry_after=retry_after)


async def use(one: Router, hold: asyncio.Event | None = None, **asked: object) -> str:
    async with one.lease(**asked) as lease:  # type: ignore[arg-type]
        if hold is not None:
            await hold.wait()
        else:
            await asyncio.sleep(0)
        lease.succeeded()
        return lease.backend.name


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def nothing_left(one: Router) -> bool:
    return one.waiting == 0 and one.in_flight == 0 and all(state.outstanding == 0 for state in one.fleet.states())


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

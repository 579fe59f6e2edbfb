"""Budgets hold however many ask at once: what those in flight may cost is set aside."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import requests

from silva.models.gateway.allowance import Allowance
from silva.models.gateway.dialects.dialect import Asked
from silva.models.gateway.rollout import Rollout
from silva.models.gateway.stake import FIRST_REPLY, PICTURE, Stake, stake_of
from silva.models.model import Sampling
from silva.tree import Usage

ASKED: dict[str, Any] = {"model": "scripted", "messages": [{"role": "user", "content": "hello"}]}
ROUTES: dict[str, dict[str, Any]] = {
    "chat/completions": ASKED,
    "messages": {**ASKED, "max_tokens": 16},
    "responses": {"model": "scripted", "input": "hello"},
}
WORDS = "I do not know."
REPLY = len(WORDS) + 1
"""Tokens the scripted model counts for its words: their bytes and an end."""


def at_once(gateway: Any, token: str, count: int, body: dict[str, Any], route: str = "chat/completions") -> list[int]:
    """Each in a rollout of its own; the statuses in order."""
    with ThreadPoolExecutor(count) as pool:
        paths = [f"/r/run/r{place}/v1/{route}" for place in range(count)]
        return sorted(answer.status_code for answer in pool.map(lambda path: gateway.post(path, token, body), paths))


def bounded(gateway: Any, turns: int) -> str:
    """The token of a run whose rollout `main` may take so many turns."""
    token = gateway.open_run()
    rollout = Rollout(run_id="run", name="main", task_id="gateway/main", most_turns=turns)
    gateway.gateway.open_rollout(gateway.gateway.accounts["run"], rollout)
    return token


def spent(gateway: Any) -> dict[str, Any]:
    return gateway.admin("GET", "runs/run").json()["spent"]


@pytest.mark.parametrize("most", [REPLY, None])
def test_ten_at_once_spend_no_more_dollars_than_three_cost(scripted: Any, serve: Any, most: int | None) -> None:
    model = scripted(latency=0.1)
    gateway = serve(model, route={"price": {"input": 0, "output": 1e6}})
    token = gateway.open_run(budget={"usd": 3 * REPLY})
    body = ASKED if most is None else {**ASKED, "max_tokens": most}
    assert at_once(gateway, token, 10, body) == [200] * 3 + [402] * 7
    assert model.requests == 3
    assert spent(gateway)["usd"] == pytest.approx(3 * REPLY)
    assert spent(gateway)["refused"] == 7


@pytest.mark.parametrize("route", ROUTES)
def test_ten_at_once_spend_no_more_tokens_than_three_cost(scripted: Any, serve: Any, route: str) -> None:
    model = scripted(latency=0.1)
    gateway = serve(model)
    token = gateway.open_run("run", budget={"tokens": 10**6})
    assert gateway.post(f"/r/run/first/v1/{route}", token, ROUTES[route]).ok
    each = spent(gateway)["prompt_tokens"] + spent(gateway)["completion_tokens"]
    token = gateway.open_run("run", again=True, budget={"tokens": 4 * each})
    assert at_once(gateway, token, 10, ROUTES[route], route) == [200] * 3 + [402] * 7
    assert model.requests == 4
    assert spent(gateway)["prompt_tokens"] + spent(gateway)["completion_tokens"] == 4 * each


def test_those_who_fit_together_do_not_wait_for_each_other(scripted: Any, serve: Any) -> None:
    gateway = serve(scripted(latency=2.0), route={"price": {"input": 0, "output": 1e6}})
    token = gateway.open_run(budget={"usd": 3 * REPLY})
    with ThreadPoolExecutor(4) as pool:
        bodies = [{**ASKED, "max_tokens": REPLY}] * 4
        answers = [pool.submit(gateway.chat, token, body, f"r{place}") for place, body in enumerate(bodies)]
        standing = {"in_flight": 0, "waiting": 0}
        deadline = time.monotonic() + 10
        while (standing["in_flight"], standing["waiting"]) != (3, 1) and time.monotonic() < deadline:
            standing = gateway.admin("GET", "runs/run").json()
        assert (standing["in_flight"], standing["waiting"]) == (3, 1)
        assert sorted(answer.result().status_code for answer in answers) == [200] * 3 + [402]


def test_what_fails_gives_back_what_was_set_aside(scripted: Any, serve: Any) -> None:
    model = scripted(latency=0.1, faults=[{"kind": "garbage", "every": 2}])
    gateway = serve(model, route={"price": {"input": 0, "output": 1e6}, "attempts": 1})
    token = gateway.open_run(budget={"usd": 3 * REPLY})
    statuses = at_once(gateway, token, 12, {**ASKED, "max_tokens": REPLY})
    assert statuses.count(200) == 3, "a request that failed cost nothing, so another took its place"
    assert set(statuses) == {200, 402, 502}
    assert gateway.admin("GET", "runs/run").json()["in_flight"] == 0


@pytest.mark.parametrize("route", ROUTES)
def test_a_rollouts_turns_are_counted_while_they_are_made(scripted: Any, serve: Any, route: str) -> None:
    model = scripted(latency=0.2)
    gateway = serve(model)
    token = bounded(gateway, 4)
    path = f"/r/run/main/v1/{route}"
    assert gateway.post(path, token, ROUTES[route]).ok
    (session,) = gateway.gateway.sessions
    with ThreadPoolExecutor(10) as pool:
        answers = list(pool.map(lambda _: gateway.post(path, token, ROUTES[route]), range(10)))
    assert sorted(answer.status_code for answer in answers) == [200] * 3 + [402] * 7
    assert (model.requests, session.turns, session.allowance.in_flight) == (4, 4, 0)


def test_turns_that_fail_are_no_turns(scripted: Any, serve: Any) -> None:
    gateway = serve(scripted(faults=[{"kind": "garbage", "every": 2}]), route={"attempts": 1})
    token = bounded(gateway, 2)
    assert gateway.chat(token, ASKED).status_code in (200, 502)
    (session,) = gateway.gateway.sessions
    statuses = [gateway.chat(token, ASKED).status_code for _ in range(8)]
    assert session.turns == 2 and statuses[-1] == 402 and 502 in statuses


@pytest.mark.parametrize("route", ROUTES)
def test_who_waits_for_others_waits_no_longer_than_the_deadline(scripted: Any, serve: Any, route: str) -> None:
    gateway = serve(scripted(latency=3.0))
    token = gateway.open_run(budget={"tokens": 100})
    first = threading.Thread(target=gateway.chat, args=(token, ASKED, "first"))
    first.start()
    while not gateway.admin("GET", "runs/run").json()["in_flight"]:
        time.sleep(0.01)
    headers = {"x-stainless-read-timeout": "0.3"}
    late = gateway.post(f"/r/run/late/v1/{route}", token, {**ROUTES[route]}, **headers)
    assert late.status_code == 504 and "set aside" in late.json()["error"]["message"]
    assert gateway.admin("GET", "runs/run").json()["waiting"] == 0
    first.join()


def test_who_waits_may_leave_and_is_told_when_the_run_is_closed(scripted: Any, serve: Any) -> None:
    model = scripted(latency=1.5)
    gateway = serve(model)
    token = gateway.open_run(budget={"tokens": 10_000})

    def standing(of: str, count: int) -> None:
        deadline = time.monotonic() + 10
        while gateway.admin("GET", "runs/run").json()[of] != count and time.monotonic() < deadline:
            time.sleep(0.01)
        assert gateway.admin("GET", "runs/run").json()[of] == count

    body = {**ASKED, "max_tokens": 9000}
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(gateway.chat, token, body, "first")
        standing("in_flight", 1)
        url = f"{gateway.where}/r/run/gone/v1/chat/completions"
        with pytest.raises(requests.Timeout):
            requests.post(url, json=body, headers={"Authorization": f"Bearer {token}"}, timeout=0.2)
        standing("waiting", 0)
        told = pool.submit(gateway.chat, token, body, "told")
        standing("waiting", 1)
        assert gateway.admin("POST", "runs/run/close").ok
        assert first.result().ok
        assert told.result().status_code == 403
    assert model.requests == 1


def test_a_bound_of_requests_counts_each_once_while_it_is_written(scripted: Any, serve: Any) -> None:
    gateway = serve(scripted())
    token = gateway.open_run(budget={"requests": 40})
    assert at_once(gateway, token, 40, ASKED) == [200] * 40


def test_what_a_request_may_cost() -> None:
    def usd(usage: Usage) -> float:
        return usage.prompt_tokens + 10 * usage.completion_tokens

    plain = Asked(model="m", messages=())
    assert stake_of(plain, 399, 0, None, usd).tokens == 100 + FIRST_REPLY
    assert stake_of(plain, 399, 50, 7.2, usd) == Stake(tokens=158, usd=150 + 80)
    bounded = Asked(model="m", messages=(), sampling=Sampling(max_tokens=5))
    assert stake_of(bounded, 399, 0, 7.2, usd) == Stake(tokens=105, usd=100 + 50)
    shown = Asked(model="m", messages=(), images={"x": ("image/png", b"0" * 3000)})
    assert stake_of(shown, 4399, 0, 7.2, usd).tokens == 100 + PICTURE + 8


async def test_sums_of_fractions_leave_nothing_behind() -> None:
    allowance = Allowance(usd=1.0)
    stakes = [Stake(usd=0.1 * each) for each in (1, 2, 3, 0.7)]
    assert all(allowance.enter(stake) for stake in stakes)
    assert not allowance.enter(Stake(usd=0.5))
    for stake in stakes:
        allowance.leave(stake)
    assert allowance.enter(Stake(usd=0.5))
    assert not allowance.enter(Stake(usd=0.51)) and allowance.enter(Stake(usd=0.5))


def until_settled(gateway: Any) -> dict[str, Any]:
    """What the run has spent, once nothing of it is in flight."""
    deadline = time.monotonic() + 10
    while gateway.admin("GET", "runs/run").json()["in_flight"] and time.monotonic() < deadline:
        time.sleep(0.02)
    assert gateway.admin("GET", "runs/run").json()["in_flight"] == 0
    return spent(gateway)


@pytest.mark.parametrize("route", ROUTES)
def test_a_client_that_leaves_has_its_run_charged(scripted: Any, serve: Any, route: str) -> None:
    gateway = serve(scripted(latency=5.0), route={"price": {"input": 0, "output": 1e6}})
    token = gateway.open_run(budget={"requests": 2})
    for rollout in ("first", "second"):
        url = f"{gateway.where}/r/run/{rollout}/v1/{route}"
        with pytest.raises(requests.Timeout):
            body = {**ROUTES[route], "max_tokens": 16} if route != "responses" else ROUTES[route]
            requests.post(url, json=body, headers={"Authorization": f"Bearer {token}"}, timeout=0.4)
        booked = until_settled(gateway)
    reply = 2 * (FIRST_REPLY if route == "responses" else 16)
    assert booked["abandoned"] == 2 and booked["requests"] == 0
    assert booked["completion_tokens"] == booked["usd"] == booked["broken_off"]["usd"] == reply
    assert booked["prompt_tokens"] == booked["broken_off"]["prompt_tokens"] > 0
    page = requests.get(f"{gateway.where}/metrics", timeout=10).text
    assert 'silva_broken_off_total{model="scripted"} 2.0' in page
    assert f'silva_broken_off_tokens_total{{kind="completion",model="scripted"}} {reply:.1f}' in page
    assert f'silva_broken_off_cost_dollars_total{{model="scripted"}} {reply:.1f}' in page
    assert gateway.post(f"/r/run/third/v1/{route}", token, ROUTES[route]).status_code == 402


def test_a_stream_that_is_left_costs_what_had_come_of_it(scripted: Any, serve: Any) -> None:
    slow = {"kind": "slow_stream", "pause": 0.2, "every": 1}
    gateway = serve(scripted(otherwise={"text": "word " * 400}, faults=[slow]))
    token = gateway.open_run()
    url = f"{gateway.where}/r/run/main/v1/chat/completions"
    headers = {"Authorization": f"Bearer {token}"}
    with gateway.http.post(url, json={**ASKED, "stream": True}, headers=headers, stream=True, timeout=30) as answer:
        next(answer.iter_content(16))
    booked = until_settled(gateway)
    assert 0 < booked["broken_off"]["completion_tokens"] < 400


def test_what_was_broken_off_counts_after_a_restart_and_beside_real_replies(scripted: Any, serve: Any) -> None:
    model = scripted(latency=1.0)
    gateway = serve(model)
    token = gateway.open_run(budget={"tokens": 10**6})
    url = f"{gateway.where}/r/run/main/v1/chat/completions"
    with pytest.raises(requests.Timeout):
        requests.post(url, json=ASKED, headers={"Authorization": f"Bearer {token}"}, timeout=0.3)
    until_settled(gateway)
    assert gateway.chat(token, ASKED).ok
    before = spent(gateway)
    gateway.stop()
    gateway = serve(model, lake=gateway.lake)
    assert spent(gateway) == before | {"refused": 0}
    assert before["broken_off"]["prompt_tokens"] and before["abandoned"] == 1
    assert gateway.chat(token, ASKED).ok
    assert gateway.admin("POST", "runs", {"run": "run", "again": True}).status_code == 201
    assert spent(gateway)["broken_off"] == before["broken_off"]


def test_a_backend_that_stalls_is_paid_for(scripted: Any, serve: Any) -> None:
    route = {"attempts": 2, "retry_ratio": 2.0, "silence_seconds": 0.3}
    stalling = [scripted(faults=[{"kind": "hang", "every": 1}]) for _ in range(2)]
    gateway = serve(*stalling, route=route)
    assert gateway.chat(gateway.open_run(), ASKED).status_code == 504
    assert spent(gateway)["broken_off"]["completion_tokens"] == 2 * FIRST_REPLY
    assert spent(gateway)["abandoned"] == 0


def test_a_call_broken_off_after_its_run_was_opened_again_brings_no_old_token_back(scripted: Any, serve: Any) -> None:
    model = scripted(latency=1.0)
    gateway = serve(model)
    old = gateway.open_run()
    url = f"{gateway.where}/r/run/main/v1/chat/completions"
    with ThreadPoolExecutor(1) as pool:
        left = pool.submit(
            lambda: requests.post(url, json=ASKED, headers={"Authorization": f"Bearer {old}"}, timeout=0.6)
        )
        while not gateway.admin("GET", "runs/run").json()["in_flight"]:
            time.sleep(0.01)
        new = gateway.open_run("run", again=True)
        with pytest.raises(requests.Timeout):
            left.result()
    time.sleep(0.2)
    gateway.stop()
    gateway = serve(model, lake=gateway.lake)
    assert gateway.chat(old, ASKED).status_code == 401
    assert gateway.chat(new, ASKED).ok

"""A request that is sent again: given its own answer where there is one, and nobody else's where there is none."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import requests
from dialect_errors import ASKED, ROUTES, each_dialect, message_of, path_to
from disks import FullDisk

STREAMED: dict[str, Any] = {**ASKED, "stream": True}
AGAIN = {"x-stainless-retry-count": "1"}


def id_of(answer: requests.Response) -> str:
    assert answer.ok, answer.text
    return answer.headers["x-request-id"]


def leave(gateway: Any, token: str, body: dict[str, Any]) -> None:
    """Ask, and hang up with the first bytes of the reply."""
    url, headers = f"{gateway.where}{path_to('chat/completions')}", {"Authorization": f"Bearer {token}"}
    with requests.post(url, json=body, headers=headers, stream=True, timeout=30) as answer:
        next(answer.iter_content(16))
    until = time.monotonic() + 10
    while gateway.admin("GET", "runs/run").json()["in_flight"] and time.monotonic() < until:
        time.sleep(0.02)


def samples(gateway: Any) -> list[str]:
    return [str(node.attributes["reply"]) for node in gateway.nodes() if node.message.role == "assistant"]


def test_a_sample_that_failed_is_made_up_for_by_one_of_its_own(scripted: Any, serve: Any) -> None:
    gateway = serve(scripted(faults=[{"kind": "status", "every": 2}]), route={"attempts": 1})
    token = gateway.open_run()
    first = id_of(gateway.chat(token, ASKED))
    assert gateway.chat(token, ASKED).status_code == 502
    again = gateway.chat(token, ASKED, **AGAIN)
    assert again.headers["x-silva-capture"] == "kept"
    assert id_of(again) != first
    repeated = gateway.chat(token, ASKED, **AGAIN)
    assert (repeated.headers["x-silva-capture"], id_of(repeated)) == ("repeated", id_of(again))
    assert sorted(samples(gateway)) == sorted([first, id_of(again)])


@pytest.mark.parametrize("closed", [False, True])
def test_a_run_that_is_opened_again_knows_which_samples_are_owed(scripted: Any, serve: Any, closed: bool) -> None:
    gateway = serve(scripted(faults=[{"kind": "status", "every": 2}]), route={"attempts": 1})
    token = gateway.open_run()
    first = id_of(gateway.chat(token, ASKED))
    assert gateway.chat(token, ASKED).status_code == 502
    if closed:
        gateway.admin("POST", "runs/run/close", {})
        assert gateway.chat(token, ASKED, **AGAIN).status_code == 403
    refused = gateway.admin("GET", "runs/run").json()["spent"]["refused"]
    token = gateway.open_run("run", again=True)
    again = gateway.chat(token, ASKED, **AGAIN)
    assert again.headers["x-silva-capture"] == "kept"
    assert id_of(again) != first
    repeated = gateway.chat(token, ASKED, **AGAIN)
    assert (repeated.headers["x-silva-capture"], id_of(repeated)) == ("repeated", id_of(again))
    assert gateway.admin("GET", "runs/run").json()["spent"]["refused"] == refused > 0


def test_who_hung_up_before_its_sample_was_kept_is_not_given_an_earlier_one(scripted: Any, serve: Any) -> None:
    slow = {"kind": "slow_stream", "pause": 0.3, "every": 2}
    gateway = serve(scripted(otherwise={"text": "word " * 60}, faults=[slow]))
    token = gateway.open_run()
    first = id_of(gateway.chat(token, STREAMED))
    leave(gateway, token, STREAMED)
    for headers in {}, AGAIN:
        asked = gateway.chat(token, STREAMED, **headers)
        assert asked.headers["x-silva-capture"] == "streamed"
        assert id_of(asked) != first
        leave(gateway, token, STREAMED)


@each_dialect
def test_the_best_of_many_asked_at_once_are_as_many_samples_although_some_fail(
    scripted: Any, serve: Any, route: str
) -> None:
    gateway = serve(scripted(latency=0.02, faults=[{"kind": "status", "every": 3}]), route={"attempts": 1})
    token = gateway.open_run()

    def ask(_: int) -> str:
        for tried in range(40):
            answer = gateway.post(path_to(route), token, ROUTES[route], **{"x-stainless-retry-count": str(tried)})
            if answer.ok:
                return id_of(answer)
            assert answer.status_code in (502, 429, 503), answer.text
            time.sleep(0.01)
        raise AssertionError("never answered")

    with ThreadPoolExecutor(8) as pool:
        told = list(pool.map(ask, range(24)))
    assert len(set(told)) == 24
    assert sorted(samples(gateway)) == sorted(told), "and every one of them was told"


def test_a_sample_that_could_not_be_kept_is_made_up_for_once_the_disk_has_room(
    scripted: Any, serve: Any, full_disk: FullDisk
) -> None:
    gateway = serve(scripted())
    token = gateway.open_run()
    first = id_of(gateway.chat(token, ASKED))
    full_disk.full = True
    assert [gateway.chat(token, ASKED).status_code for _ in range(2)] == [507, 507]
    full_disk.full = False
    told = [id_of(gateway.chat(token, ASKED, **AGAIN)) for _ in range(2)]
    assert len({first, *told}) == 3
    assert sorted(samples(gateway)) == sorted([first, *told])


def test_who_joined_has_the_answer_and_it_is_not_given_again(scripted: Any, serve: Any) -> None:
    gateway = serve(scripted(latency=0.5))
    token = gateway.open_run()
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(gateway.chat, token, ASKED)
        until = time.monotonic() + 10
        while not gateway.admin("GET", "runs/run").json()["in_flight"] and time.monotonic() < until:
            time.sleep(0.01)
        joined = pool.submit(gateway.chat, token, ASKED, **AGAIN)
        assert id_of(first.result()) == id_of(joined.result())
    assert joined.result().headers["x-silva-capture"] == "repeated"
    assert id_of(gateway.chat(token, ASKED)) != id_of(first.result())
    assert len(samples(gateway)) == 2


@each_dialect
def test_a_key_is_good_for_one_request(scripted: Any, serve: Any, route: str) -> None:
    model = scripted()
    gateway = serve(model)
    token = gateway.open_run()
    key = {"idempotency-key": "mine"}
    field = "input" if route == "responses" else "messages"
    other = {**ROUTES[route], field: [{"role": "user", "content": "something else"}]}
    first = gateway.post(path_to(route), token, ROUTES[route], **key)
    for _ in range(2):
        refused = gateway.post(path_to(route), token, other, **key)
        assert refused.status_code == 409 and "Idempotency-Key" in message_of(refused, route)
        again = gateway.post(path_to(route), token, {**ROUTES[route], "stream": False}, **key)
        assert id_of(again) == id_of(first)
        assert model.requests == 1
        gateway.stop()
        gateway = serve(model, lake=gateway.lake)
    assert gateway.post(path_to(route), token, other, **{"idempotency-key": "another"}).ok


@pytest.mark.parametrize("route", ["chat/completions"])
def test_a_key_is_good_for_one_request_also_while_that_is_answered(scripted: Any, serve: Any, route: str) -> None:
    gateway = serve(scripted(latency=0.5))
    token = gateway.open_run()
    key = {"idempotency-key": "mine"}
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(gateway.chat, token, ASKED, **key)
        until = time.monotonic() + 10
        while not gateway.admin("GET", "runs/run").json()["in_flight"] and time.monotonic() < until:
            time.sleep(0.01)
        other = {**ASKED, "messages": [{"role": "user", "content": "something else"}]}
        assert gateway.chat(token, other, **key).status_code == 409
        assert first.result().ok

"""The gateway uses its routing: who is asked, who waits, and what is told where nobody can be asked."""

from __future__ import annotations

import asyncio
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import requests
from dialect_errors import ASKED, ROUTES, each_dialect, message_of, path_to

from silva.models import ModelError
from silva.models.gateway.config import Route, StaticBackend
from silva.models.gateway.routing import Backend, Refused, Router

NO_MODEL = {"kind": "status", "status": 404, "message": "The model `scripted` does not exist."}
NO_QUOTA = {"kind": "status", "status": 429, "message": "You exceeded your current quota, check your billing"}
OWN_TROUBLE = pytest.mark.parametrize("fault", [NO_MODEL, NO_QUOTA, {**NO_MODEL, "status": 402}])


@OWN_TROUBLE
def test_a_backend_without_the_model_or_out_of_quota_fails_nobody(scripted: Any, serve: Any, fault: Any) -> None:
    broken = scripted(faults=[fault])
    health = {"breaker": 3, "open_seconds": 600}
    gateway = serve(broken, scripted(), route={"health": health, "retry_ratio": 1.0})
    token = gateway.open_run()
    answers = [gateway.chat(token, ASKED, rollout=f"r{number}") for number in range(20)]
    assert [answer.status_code for answer in answers] == [200] * 20
    assert broken.requests == 3, "its breaker opened"


@OWN_TROUBLE
@each_dialect
def test_where_all_are_so_it_is_no_fault_of_the_client(scripted: Any, serve: Any, route: str, fault: Any) -> None:
    models = [scripted(faults=[fault]), scripted(faults=[fault])]
    gateway = serve(*models)
    answer = gateway.post(path_to(route), gateway.open_run(), ROUTES[route])
    assert answer.status_code == 502
    assert fault["message"] in message_of(answer, route)
    assert [model.requests for model in models] == [1, 1]


@each_dialect
def test_how_long_a_backend_wants_to_be_left_alone_is_what_clients_are_told(
    scripted: Any, serve: Any, route: str
) -> None:
    limited = scripted(faults=[{"kind": "rate_limit", "retry_after": 30}])
    gateway = serve(limited, limits={"wait_seconds": 3.0})
    token = gateway.open_run()
    began = time.monotonic()
    for rollout in ("first", "second", "third"):
        answer = gateway.post(path_to(route, rollout=rollout), token, ROUTES[route])
        assert answer.status_code == 429, answer.text
        assert 25 <= int(answer.headers["retry-after"]) <= 30
    assert "left alone" in message_of(answer, route)
    assert limited.requests == 1 and time.monotonic() - began < 3.0
    refused = gateway.admin("GET", "models").json()["models"][0]["refused"]
    assert refused == {"held": 2}


async def test_who_may_wait_as_long_as_a_backend_wants_gets_it_then() -> None:
    router = Router("policy", Route(backends=(StaticBackend(url="http://127.0.0.1:1/v1"),)))
    router.fleet.add(Backend(name="only", url="http://127.0.0.1:1/v1"))
    async with router.lease() as lease:
        lease.failed(ModelError("rate_limit", "slowly", transient=True, retry_after=0.4))
    began = router.now()

    async def place(seconds: float) -> float:
        async with router.lease(deadline=began + seconds):
            return router.now() - began

    early, *late = await asyncio.gather(*(place(seconds) for seconds in (0.2, 5.0, 5.0)), return_exceptions=True)
    assert isinstance(early, Refused) and early.kind == "held" and early.retry_after == pytest.approx(0.4, abs=0.1)
    assert all(isinstance(each, float) and 0.4 <= each < 2.0 for each in late)
    assert router.waiting == 0


@each_dialect
def test_where_no_backend_is_up_clients_are_told_when_to_come_again(serve: Any, route: str) -> None:
    health = {"every": 0.1, "failures": 1, "breaker": 1, "open_seconds": 0.2}
    gateway = serve({"url": "http://127.0.0.1:1/v1"}, route={"health": health})
    ready = requests.get(f"{gateway.where}/readyz", timeout=10)
    until = time.monotonic() + 10
    while ready.ok and time.monotonic() < until:
        ready = requests.get(f"{gateway.where}/readyz", timeout=10)
    assert ready.status_code == 503
    (told,) = ready.json()["trouble"]
    assert told.startswith("model scripted has no backend: ") and "health check" in told
    answer = gateway.post(path_to(route), gateway.open_run(), ROUTES[route])
    assert answer.status_code == 503, answer.text
    assert int(answer.headers["retry-after"]) >= 1
    assert "no backend of model scripted is up" in message_of(answer, route)


def test_a_model_that_is_started_on_demand_is_ready_at_rest(serve: Any, tmp_path: Path) -> None:
    (tmp_path / "script.yaml").write_text("model: m\notherwise: {text: 'here'}\n")
    command = [sys.executable, "-m", "silva", "models", "serve", "--scripted", str(tmp_path / "script.yaml")]
    command += ["--port", "{port}", "--token-env", "SILVA_CHILD_TOKEN"]
    backend = {"provider": "process", "command": command, "health": "/healthz", "model": "m", "idle": 0.5}
    gateway = serve(backend)
    time.sleep(0.7)
    ready = requests.get(f"{gateway.where}/readyz", timeout=10)
    assert ready.status_code == 200, ready.text
    assert gateway.admin("GET", "models").json()["models"][0].get("backends", []) == [], "nothing was started for it"
    answer = gateway.chat(gateway.open_run(), ASKED)
    assert answer.ok and "here" in answer.text


def test_a_model_that_cannot_be_started_is_not_ready_until_it_may_be_tried_again(serve: Any) -> None:
    gateway = serve({"provider": "process", "command": ["/no/such/server"]}, route={"health": {"open_seconds": 0.1}})
    assert requests.get(f"{gateway.where}/readyz", timeout=10).ok
    asked = gateway.chat(gateway.open_run(), ASKED)
    assert asked.status_code == 503 and "/no/such/server" in asked.text
    until = time.monotonic() + 20
    seen: set[int] = set()
    while seen != {200, 503} and time.monotonic() < until:
        ready = requests.get(f"{gateway.where}/readyz", timeout=10)
        seen.add(ready.status_code)
        assert ready.ok or "/no/such/server" in ready.text
    assert seen == {200, 503}, "told, and not for ever: behind a probe nothing would ever try again"


@each_dialect
def test_who_waits_too_long_is_told_to_come_again(scripted: Any, serve: Any, route: str) -> None:
    gateway = serve(scripted(latency=2.0), route={"concurrency": {"start": 1, "most": 1}}, limits={"wait_seconds": 0.3})
    token = gateway.open_run()
    with ThreadPoolExecutor(3) as pool:
        paths = [path_to(route, rollout=f"r{place}") for place in range(3)]
        answers = list(pool.map(lambda path: gateway.post(path, token, ROUTES[route]), paths))
    late = [answer for answer in answers if answer.status_code == 429]
    assert sorted(answer.status_code for answer in answers) == [200, 429, 429]
    assert all(int(answer.headers["retry-after"]) >= 1 for answer in late)
    assert all("no backend was free within 0.3 s" in message_of(answer, route) for answer in late)


def test_all_turns_of_a_rollout_go_to_one_backend(scripted: Any, serve: Any) -> None:
    models = [scripted(), scripted(), scripted()]
    gateway = serve(*models)
    token = gateway.open_run()
    for rollout in range(8):
        said: list[dict[str, Any]] = []
        for turn in range(4):
            said.append({"role": "user", "content": f"{rollout}: {turn}"})
            answer = gateway.chat(token, {**ASKED, "messages": said}, rollout=f"r{rollout}")
            said.append(answer.json()["choices"][0]["message"])
    asked = {}
    for node in gateway.nodes():
        if node.message.role == "assistant":
            asked.setdefault(node.tree_id, set()).add(node.attributes["backend"])
    assert len(asked) == 8 and all(len(backends) == 1 for backends in asked.values())
    assert len(set.union(*asked.values())) > 1, "and rollouts are spread"


def test_runs_get_places_by_their_shares(scripted: Any, serve: Any) -> None:
    gateway = serve(scripted(latency=0.04), route={"concurrency": {"start": 1, "most": 1}})
    tokens = {"small": gateway.open_run("small"), "large": gateway.open_run("large", share=3.0)}
    order: list[str] = []

    def ask(run: str, place: int) -> None:
        assert gateway.chat(tokens[run], ASKED, rollout=f"r{place}").ok
        order.append(run)

    with ThreadPoolExecutor(48) as pool:
        asking = [pool.submit(ask, run, place) for place in range(24) for run in tokens]
        for each in asking:
            each.result()
    early = Counter(order[4:28])  # by then all wait, and of both runs some are left
    assert early["large"] == pytest.approx(18, abs=2), order

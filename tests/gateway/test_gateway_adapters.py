"""Policy versions that are adapters: how many a backend holds, under which names, and what happens without one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from disks import FullDisk
from versioned_model import Versioned

from silva.models.gateway.versions import KEPT
from silva.models.serving import Refusal, ServerThread

ASKED: dict[str, Any] = {"model": "scripted", "messages": [{"role": "user", "content": "who?"}]}
ROUTE = {"renderer": "scripted", "version": "v0", "health": {"every": 0.05, "failures": 1, "breaker": 1}}


@pytest.fixture
def model() -> Iterator[Callable[..., tuple[Versioned, dict[str, Any]]]]:
    """A model that holds adapters, and it as a backend of a kind."""
    with ExitStack() as stack:

        def start(kind: str = "vllm", **settings: Any) -> tuple[Versioned, dict[str, Any]]:
            app = Versioned(**settings)
            url = stack.enter_context(ServerThread(app)).url
            return app, {"url": url, "model": "scripted", "kind": kind}

        yield start


def swap(gateway: Any, version: str, adapter: str = "", **more: Any) -> Any:
    return gateway.admin("POST", "models/scripted/swap", {"version": version, "adapter": adapter, **more})


def said(gateway: Any, token: str, rollout: str = "main") -> str:
    answer = gateway.chat(token, ASKED, rollout=rollout)
    assert answer.status_code == 200, answer.text
    return answer.json()["choices"][0]["message"]["content"].split()[0]


TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}


@pytest.mark.parametrize("who", ["gateway", "backend"])
def test_a_request_that_is_refused_after_a_swap_is_told_at_once(model: Any, serve: Any, who: str) -> None:
    app, backend = model()
    gateway = serve(backend, route={**ROUTE, "deadline": 20.0})
    token = gateway.open_run()
    assert swap(gateway, "step-1", "a/1").ok
    app.refuses = Refusal(400, "that is no conversation") if who == "backend" else None
    began, loads = time.monotonic(), app.loads
    answer = gateway.chat(token, ASKED if who == "backend" else {**ASKED, "tools": [TOOL], "tool_choice": "required"})
    assert answer.status_code == 400, answer.text
    assert time.monotonic() - began < 2.0
    assert app.loads == loads, "what is refused has nothing to do with the adapter"


def test_a_backend_that_has_no_such_model_even_after_loading_is_told_of(model: Any, serve: Any) -> None:
    app, backend = model()
    gateway = serve(backend, route={**ROUTE, "deadline": 20.0})
    token = gateway.open_run()
    assert swap(gateway, "step-1", "a/1").ok
    app.refuses = Refusal(404, "The model `step-1` does not exist.")
    began, loads = time.monotonic(), app.loads
    answer = gateway.chat(token, ASKED)
    assert answer.status_code == 502 and "does not exist" in answer.text
    assert time.monotonic() - began < 2.0
    assert app.loads == loads + 1


@pytest.mark.parametrize(
    ("status", "words"), [(404, "no such model"), (400, "LoRA adapters are not loaded: {'step-1'}")]
)
def test_many_at_once_find_a_backend_that_was_started_anew(model: Any, serve: Any, status: int, words: str) -> None:
    app, backend = model("sglang" if status == 400 else "vllm")
    app.lacks = Refusal(status, words)
    gateway = serve(backend, route=ROUTE)
    token = gateway.open_run()
    assert swap(gateway, "step-1", "a/1").ok
    assert said(gateway, token) == "step-1"
    app.adapters.clear()
    answers: list[str] = []
    asking = [threading.Thread(target=lambda n=n: answers.append(said(gateway, token, f"r{n}"))) for n in range(6)]
    for each in asking:
        each.start()
    for each in asking:
        each.join()
    assert answers == ["step-1"] * 6


def test_who_cannot_wait_for_an_adapter_is_told_in_time_and_it_goes_on_loading(model: Any, serve: Any) -> None:
    app, backend = model()
    gateway = serve(backend, route={**ROUTE, "attempts": 1, "deadline": 20.0})
    token = gateway.open_run()
    assert swap(gateway, "step-1", "a/1").ok
    app.adapters.clear()
    app.load_pause, loads = 1.5, app.loads
    began = time.monotonic()
    answer = gateway.chat(token, ASKED, **{"x-stainless-timeout": "0.4"})
    assert answer.status_code == 504 and "did not load step-1 within" in answer.text
    assert time.monotonic() - began < 1.2
    spent = gateway.admin("GET", "runs/run").json()["spent"]
    assert (spent["requests"], spent["prompt_tokens"], spent["broken_off"]) == (0, 0, {})
    assert said(gateway, token) == "step-1"
    assert app.loads == loads + 1, "the adapter that was being loaded was waited for, not loaded again"


@pytest.mark.parametrize("kind", ["vllm", "silva", "sglang"])
def test_old_versions_are_unloaded(model: Any, serve: Any, kind: str) -> None:
    app, backend = model(kind, most=KEPT + 1)
    gateway = serve(backend, route=ROUTE)
    token = gateway.open_run()
    for number in range(12):
        assert swap(gateway, f"step-{number}", f"a/{number}").ok
        assert said(gateway, token, f"r{number}") == f"step-{number}"
    assert [*app.adapters] == ["step-9", "step-10", "step-11"]
    assert swap(gateway, "step-9").json()["version"] == "step-9", "one that is held needs no folder"
    assert said(gateway, token, "back") == "step-9"
    gateway.stop()
    again = serve(backend, route=ROUTE, lake=gateway.lake)
    for number in range(12, 16):
        assert swap(again, f"step-{number}", f"a/{number}").ok, "those of the gateway's earlier life are unloaded too"
    assert [*app.adapters] == ["step-13", "step-14", "step-15"]


def test_a_version_is_not_unloaded_under_a_request(model: Any, serve: Any) -> None:
    app, backend = model()
    gateway = serve(backend, route=ROUTE)
    token = gateway.open_run()
    assert swap(gateway, "step-0", "a/0").ok
    app.pause = 1.5
    answers: list[str] = []
    asking = threading.Thread(target=lambda: answers.append(said(gateway, token)))
    asking.start()
    while not app.in_flight:
        time.sleep(0.005)
    for number in range(1, 6):
        assert swap(gateway, f"step-{number}", f"a/{number}").ok
    assert [*app.adapters] == ["step-0", "step-3", "step-4", "step-5"]
    asking.join()
    assert answers == ["step-0"]
    assert swap(gateway, "step-6", "a/6").ok
    assert [*app.adapters] == ["step-4", "step-5", "step-6"]


def test_a_name_stands_for_one_folder(model: Any, serve: Any) -> None:
    app, backend = model()
    gateway = serve(backend, route=ROUTE)
    token = gateway.open_run()
    assert swap(gateway, "best", "a/1").ok
    assert swap(gateway, "best", "a/1").ok
    taken = swap(gateway, "best", "a/2")
    assert taken.status_code == 409 and "a/1" in taken.text and "another name" in taken.text
    assert said(gateway, token) == "best" and app.adapters == {"best": "a/1"}
    gateway.stop()
    again = serve(backend, route=ROUTE, lake=gateway.lake)
    assert swap(again, "best", "a/2").status_code == 409


def test_a_swap_that_failed_leaves_its_name_free(model: Any, serve: Any) -> None:
    (app, backend), (other, second) = model(), model()
    other.most = 0
    gateway = serve(backend, second, route=ROUTE)
    assert swap(gateway, "best", "a/1").status_code == 502
    assert app.adapters == {}, "nothing is left where it could be loaded"
    other.most = 9
    assert swap(gateway, "best", "a/wrong").status_code == 502
    assert swap(gateway, "best", "a/2").ok
    assert app.adapters == other.adapters == {"best": "a/2"}


def healthy(gateway: Any, expected: list[bool]) -> None:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        (shown,) = gateway.admin("GET", "models").json()["models"]
        if [each["healthy"] for each in shown["backends"]] == expected:
            return
        time.sleep(0.02)
    raise AssertionError(shown)


@pytest.mark.parametrize("noticed", [True, False])
def test_a_backend_that_is_down_does_not_stand_in_a_swaps_way(model: Any, serve: Any, noticed: bool) -> None:
    app, backend = model()
    late = Versioned()
    gone = ServerThread(late).start()
    port = int(gone.url.rsplit(":", 1)[1].split("/")[0])
    second = {**backend, "url": gone.url}
    health = ROUTE["health"] if noticed else {"every": 600.0}
    gateway = serve(backend, second, route={**ROUTE, "health": health, "retry_ratio": 1.0})
    gone.stop()
    if noticed:
        healthy(gateway, [True, False])
    assert swap(gateway, "step-1", "a/1").ok
    assert app.adapters == {"step-1": "a/1"}
    if noticed:
        with ServerThread(late, port=port):
            healthy(gateway, [True, True])
            token = gateway.open_run()
            assert {said(gateway, token, f"r{number}") for number in range(12)} == {"step-1"}
            assert late.adapters == {"step-1": "a/1"}


def test_a_swap_needs_one_backend_that_is_up(serve: Any) -> None:
    dead = {"url": "http://127.0.0.1:1/v1", "kind": "vllm"}
    gateway = serve(dead, route=ROUTE)
    healthy(gateway, [False])
    answer = swap(gateway, "step-1", "a/1")
    assert answer.status_code == 502 and "no backend is up" in answer.text
    (shown,) = gateway.admin("GET", "models").json()["models"]
    assert shown["version"] == "v0"


@pytest.mark.parametrize("adapter", ["a/1", ""])
def test_what_is_told_of_a_swap_that_cannot_be_noted_is_so(
    model: Any, serve: Any, full_disk: FullDisk, adapter: str
) -> None:
    app, backend = model()
    gateway = serve(backend, route=ROUTE)
    full_disk.full = True
    answer = swap(gateway, "step-1", adapter)
    assert answer.status_code == 507
    (shown,) = gateway.admin("GET", "models").json()["models"]
    if adapter:
        assert shown["version"] == "v0" and "keeps v0" in answer.text and app.adapters == {}
    else:  # the caller changed the weights: they have their name
        assert shown["version"] == "step-1" and "serves step-1 from now on" in answer.text
    full_disk.full = False
    assert swap(gateway, "step-1", adapter).ok


def test_a_drain_that_takes_too_long_gives_the_swap_up(model: Any, serve: Any) -> None:
    app, backend = model()
    app.pause = 3.0
    gateway = serve(backend, route=ROUTE)
    token = gateway.open_run()
    asking = threading.Thread(target=gateway.chat, args=(token, ASKED, "hung"))
    asking.start()
    while not app.in_flight:
        time.sleep(0.005)
    began = time.monotonic()
    answer = swap(gateway, "v1", drain_seconds=0.3)
    assert answer.status_code == 504 and "in flight after 0.3 s" in answer.text
    assert time.monotonic() - began < 2.0
    app.pause = 0.01
    (shown,) = gateway.admin("GET", "models").json()["models"]
    assert shown["version"] == "v0" and shown["stage"] == "serving"
    assert gateway.chat(token, ASKED, rollout="other").ok, "it serves on meanwhile"
    asking.join()
    assert swap(gateway, "v1", drain_seconds=5.0).json()["version"] == "v1"


def test_one_change_at_a_time(model: Any, serve: Any) -> None:
    app, backend = model()
    gateway = serve(backend, route=ROUTE)
    app.load_pause = 1.0
    first: list[Any] = []
    changing = threading.Thread(target=lambda: first.append(swap(gateway, "step-1", "a/1")))
    changing.start()
    while not app.loads:
        time.sleep(0.005)
    second = swap(gateway, "step-2", "a/2")
    changing.join()
    assert [first[0].json()["version"], second.json()["version"]] == ["step-1", "step-2"]
    assert [*app.adapters] == ["step-1", "step-2"]
    assert gateway.admin("GET", "models").json()["models"][0]["version"] == "step-2"

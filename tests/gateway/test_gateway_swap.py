"""Another policy version under load: no request fails, and every node carries the version that really answered."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from under_load import Load, versions_kept
from versioned_model import Versioned

from silva.models.serving import ServerThread


@pytest.fixture
def versioned() -> Iterator[Callable[..., list[tuple[Versioned, str]]]]:
    """Two such models and their urls."""
    with ExitStack() as stack:

        def start(tells: bool = True) -> list[tuple[Versioned, str]]:
            apps = [Versioned(tells) for _ in range(2)]
            return [(app, stack.enter_context(ServerThread(app)).url) for app in apps]

        yield start


def load_on(gateway: Any, token: str) -> Load:
    """Clients that never rest; every other turn is streamed."""

    def ask(number: int, turn: int) -> str:
        asked = {"model": "scripted", "messages": [{"role": "user", "content": f"{number}: {turn}"}]}
        answer = gateway.chat(token, {**asked, "stream": bool(turn % 2)}, rollout=f"client-{number}")
        return answer.text if answer.status_code != 200 or "error" in answer.text else ""

    return Load(ask)


def admin(gateway: Any, what: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    answer = gateway.admin("POST", f"models/scripted/{what}", body or {})
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.parametrize(
    ("kind", "tells"), [("chat", True), ("chat", False), ("vllm", False), ("sglang", True), ("sglang", False)]
)
def test_weights_changed_in_place_fail_nothing_and_every_node_says_who_answered(
    versioned: Any, serve: Any, kind: str, tells: bool
) -> None:
    models = versioned(tells)
    backends = [{"url": url, "model": "scripted", "kind": kind} for _, url in models]
    gateway = serve(*backends, route={"version": "v0", "renderer": "scripted"})
    token = gateway.open_run()
    with load_on(gateway, token) as load:
        for number in range(1, 4):
            load.more(20)
            admin(gateway, "pause")
            assert admin(gateway, "drain")["in_flight"] == 0
            for app, _ in models:
                assert app.in_flight == 0
                app.version = f"v{number}"
            assert admin(gateway, "swap", {"version": f"v{number}"})["version"] == f"v{number}"
            assert admin(gateway, "resume")["paused"] is False
        load.more(20)
    assert load.failed == []
    assert versions_kept(gateway.nodes()) == {name: {name} for name in ("v0", "v1", "v2", "v3")}


@pytest.mark.parametrize("kind", ["silva", "vllm", "sglang"])
def test_adapters_change_the_version_under_load_and_every_node_says_who_answered(
    versioned: Any, serve: Any, kind: str
) -> None:
    models = versioned(kind == "silva")
    backends = [{"url": url, "model": "scripted", "kind": kind} for _, url in models]
    gateway = serve(*backends, route={"renderer": "scripted", "version": "v0", "health": {"every": 0.05}})
    token = gateway.open_run()
    with load_on(gateway, token) as load:
        for name in ("step-1", "step-2", "step-1"):
            load.more(20)
            assert admin(gateway, "swap", {"version": name, "adapter": f"adapters/{name}"})["version"] == name
            asked = {"model": "scripted", "messages": [{"role": "user", "content": f"after {name}"}]}
            for _ in range(4):
                said = gateway.chat(token, asked, rollout="after").json()["choices"][0]["message"]["content"]
                assert said.startswith(name), "asked after the swap was answered"
        load.more(20)
    assert load.failed == []
    kept = versions_kept(gateway.nodes())
    assert kept.pop("digest-of-v0" if kind == "silva" else "v0") == {"v0"}
    assert kept == {"step-1": {"step-1"}, "step-2": {"step-2"}}


@pytest.mark.parametrize("kind", ["silva", "sglang"])
def test_backends_and_gateways_that_are_started_anew_serve_what_was_swapped_to(
    versioned: Any, serve: Any, kind: str
) -> None:
    models = versioned()
    backends = [{"url": url, "model": "scripted", "kind": kind} for _, url in models]
    route = {"renderer": "scripted", "version": "v0"}
    first = serve(*backends, route=route)
    token = first.open_run()
    asked = {"model": "scripted", "messages": [{"role": "user", "content": "who?"}]}
    admin(first, "swap", {"version": "step-1", "adapter": "adapters/step-1"})
    for app, _ in models:
        app.adapters.clear()  # as after a restart

    def answers(gateway: Any) -> set[str]:
        replies = [gateway.chat(token, asked, rollout=f"r{number}").json() for number in range(6)]
        return {reply["choices"][0]["message"]["content"].split()[0] for reply in replies}

    assert answers(first) == {"step-1"}
    first.stop()
    for app, _ in models:
        app.adapters.clear()
    second = serve(*backends, route=route, lake=first.lake)
    assert second.admin("GET", "models").json()["models"][0]["version"] == "step-1"
    assert answers(second) == {"step-1"}
    # Adapters are loaded where a rollout is sent, and which server that is depends on the run's random id.
    more = (second.chat(token, asked, rollout=f"r{number}").json() for number in range(6, 100))
    assert all("step-1" in app.adapters for app, _ in models) or any(
        all("step-1" in app.adapters for app, _ in models) for _ in more
    )

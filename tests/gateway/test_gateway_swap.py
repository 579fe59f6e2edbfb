"""Another policy version under load: no request fails, and every node carries the version that really answered."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from under_load import Load, completed, generated, versions_kept

from silva.models.serving import ChatApp, ChatRequest, Exchange, Refusal, ServerThread
from silva.models.serving.chat import ChatReply

_numbers = itertools.count()

BUILD = "vllm-0.32-tp1-7f2c"


class Versioned(ChatApp):
    """A model that says which version answers. Its weights can be changed in place, while nothing is in flight; or it
    holds adapters beside them, as vLLM's and SGLang's routes have it. `tells`: it says which version answers, as
    Silva's servers do; else its fingerprint is that of its build, which stays."""

    def __init__(self, tells: bool) -> None:
        super().__init__("scripted")
        self.version = "v0"
        self.tells = tells
        self.adapters: set[str] = set()
        self.in_flight = 0

    async def chat(self, request: ChatRequest, exchange: Exchange) -> None:
        version = self.version
        text = await self._said(version)
        reply = ChatReply(text=text, fingerprint=version if self.tells else None)
        if not request.stream:
            await exchange.send(200, built(reply.encode(request)))
            return
        await exchange.begin_events()
        for event in reply.events(request, iter((text[:3], text[3:]))):
            await exchange.event(built(event))
        await exchange.end()

    async def elsewhere(self, path: str, method: str, exchange: Exchange) -> None:
        if path == "/health":
            await exchange.send(200, b"")
            return
        body = json.loads(await exchange.body())
        if path in ("/v1/load_lora_adapter", "/load_lora_adapter"):
            if body["lora_name"] in self.adapters:
                raise Refusal(400, "the adapter is already loaded")
            self.adapters.add(body["lora_name"])
            await exchange.send(200, b"{}")
        elif path == "/v1/completions":
            await self._completed(body, exchange)
        elif path == "/generate":
            await self._generated(body, exchange)
        else:
            raise Refusal(404, path)

    async def _completed(self, body: dict[str, Any], exchange: Exchange) -> None:
        if body["model"] not in {*self.adapters, self.model}:
            raise Refusal(404, "no such model")
        version = body["model"] if body["model"] in self.adapters else self.version
        text = await self._said(version)
        said = completed(body, text, f"digest-of-{version}" if self.tells else BUILD)
        await self._send(body, said, exchange)

    async def _generated(self, body: dict[str, Any], exchange: Exchange) -> None:
        asked = body.get("lora_path")
        if asked is not None and asked not in self.adapters:
            raise Refusal(400, f"the adapter {asked} is not loaded")
        version = asked or self.version
        said = generated(body, await self._said(version), self.version if self.tells else "default")
        await self._send(body, said, exchange)

    async def _send(self, body: dict[str, Any], said: dict[str, Any], exchange: Exchange) -> None:
        if not body.get("stream"):
            await exchange.send(200, json.dumps(said).encode())
            return
        await exchange.begin_events()
        await exchange.event(f"data: {json.dumps(said)}\n\ndata: [DONE]\n\n".encode())
        await exchange.end()

    async def _said(self, version: str) -> str:
        self.in_flight += 1
        await asyncio.sleep(0.01)
        self.in_flight -= 1
        return f"{version} says {next(_numbers)}"


def built(data: bytes) -> bytes:
    """A reply that tells no version, with the fingerprint of a build."""
    return data.replace(b'"system_fingerprint":null', f'"system_fingerprint":"{BUILD}"'.encode())


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
    assert all("step-1" in app.adapters for app, _ in models)

"""Budgets bind where a backend does not tell what a reply used, and where a model has no price."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from dialect_errors import ASKED, ROUTES, each_dialect, message_of, path_to

from silva.models.serving import ChatApp, ChatRequest, Exchange, ServerThread

WORDS = "eight letters and more of them"
IDS = [5, 6, 7]


class Mute(ChatApp):
    """A model that does not tell what a reply used; `ids`: it gives ids instead."""

    def __init__(self, ids: bool) -> None:
        super().__init__("scripted")
        self.ids = ids
        self.asked = 0

    async def chat(self, request: ChatRequest, exchange: Exchange) -> None:
        self.asked += 1
        message = {"role": "assistant", "content": WORDS}
        choice: dict[str, Any] = {"index": 0, "finish_reason": "stop"}
        ids = {"token_ids": IDS} if self.ids else {}
        told = {"id": "x", "model": "scripted", **({"prompt_token_ids": [1, 2]} if self.ids else {})}
        if not request.stream:
            reply = {**told, "object": "chat.completion", "choices": [{**choice, "message": message, **ids}]}
            await exchange.send(200, json.dumps(reply).encode())
            return
        await exchange.begin_events()
        reply = {**told, "object": "chat.completion.chunk", "choices": [{**choice, "delta": message, **ids}]}
        await exchange.event(f"data: {json.dumps(reply)}\n\ndata: [DONE]\n\n".encode())
        await exchange.end()


@pytest.fixture
def mute() -> Iterator[Callable[[bool], tuple[Mute, dict[str, Any]]]]:
    """Such a model, and it as a backend."""
    with ExitStack() as stack:

        def start(ids: bool) -> tuple[Mute, dict[str, Any]]:
            app = Mute(ids)
            return app, {"url": stack.enter_context(ServerThread(app)).url, "model": "scripted", "ids": ids}

        yield start


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("ids", [False, True])
def test_what_a_reply_used_is_counted_or_estimated(mute: Any, serve: Any, ids: bool, stream: bool) -> None:
    _, backend = mute(ids)
    gateway = serve(backend, route={"price": {"input": 0, "output": 1e6}})
    assert gateway.chat(gateway.open_run(), {**ASKED, "stream": stream}).ok
    spent = gateway.admin("GET", "runs/run").json()["spent"]
    (node,) = [node for node in gateway.nodes() if node.message.role == "assistant"]
    if ids:
        assert (spent["prompt_tokens"], spent["completion_tokens"]) == (2, len(IDS))
        assert "usage" not in node.attributes
    else:
        assert spent["prompt_tokens"] > 10 and spent["completion_tokens"] == len(WORDS) // 4 + 1
        assert node.attributes["usage"] == "estimate"
    assert spent["usd"] == spent["completion_tokens"] == node.usage.completion_tokens


@each_dialect
@pytest.mark.parametrize("budget", [{"tokens": 100}, {"usd": 100}])
def test_a_budget_ends_although_nobody_tells(mute: Any, serve: Any, route: str, budget: dict[str, int]) -> None:
    app, backend = mute(False)
    gateway = serve(backend, route={"price": {"input": 1e6, "output": 1e6}})
    token = gateway.open_run(budget=budget)
    statuses = [gateway.post(path_to(route, rollout=f"r{n}"), token, ROUTES[route]).status_code for n in range(12)]
    assert statuses[0] == 200 and statuses[-1] == 402
    asked = app.asked
    gateway.stop()
    again = serve(backend, route={"price": {"input": 1e6, "output": 1e6}}, lake=gateway.lake)
    assert again.post(path_to(route, rollout="late"), token, ROUTES[route]).status_code == 402
    assert app.asked == asked


def test_a_budget_in_dollars_needs_a_price(scripted: Any, serve: Any) -> None:
    gateway = serve(scripted())
    refused = gateway.admin("POST", "runs", {"run": "run", "budget": {"usd": 5}})
    assert refused.status_code == 400 and "models.NAME.price" in refused.text
    assert gateway.chat(gateway.open_run(budget={"tokens": 10_000}), ASKED).ok


@each_dialect
def test_a_run_bound_in_dollars_may_use_what_has_a_price_alone(scripted: Any, serve: Any, route: str) -> None:
    model = scripted()
    backends = [{"url": model.url, "model": "scripted"}]
    priced = {"backends": backends, "price": {"input": 1, "output": 1}}
    free = {"backends": backends, "price": {"input": 0, "output": 0}}
    gateway = serve(models={"scripted": {"backends": backends}, "priced": priced, "free": free})
    token = gateway.open_run(budget={"usd": 5})
    for name in ("priced", "free"):
        assert gateway.post(path_to(route, rollout=name), token, {**ROUTES[route], "model": name}).ok
    answer = gateway.post(path_to(route), token, ROUTES[route])
    assert answer.status_code == 403 and "models.scripted.price" in message_of(answer, route)
    assert model.requests == 2

"""A repeated request is answered from the record only once the record is on disk."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import requests

ASKED: dict[str, Any] = {"model": "scripted", "messages": [{"role": "user", "content": "hello"}]}


class SlowDisk:
    """Holds what is submitted to a lake back until told otherwise, in order, as the journal does."""

    def __init__(self, submit: Callable[..., asyncio.Future[None]]) -> None:
        self.held = threading.Event()
        self._submit = submit
        self._go = threading.Event()
        self._tasks: list[asyncio.Task[None]] = []

    def __call__(
        self, records: Sequence[Any], *, at_once: bool = False, meanwhile: Callable[[], object] | None = None
    ) -> asyncio.Future[None]:
        loop = asyncio.get_running_loop()
        durable: asyncio.Future[None] = loop.create_future()

        async def later() -> None:
            await asyncio.to_thread(self._go.wait)
            await self._submit(records, at_once=at_once, meanwhile=meanwhile)
            if not durable.cancelled():
                durable.set_result(None)

        self._tasks.append(loop.create_task(later()))
        self.held.set()
        return durable

    def go(self) -> None:
        """Let everything through."""
        self._go.set()


def test_a_repeated_request_waits_for_the_disk_although_the_first_client_left(
    scripted: Any, serve: Any, monkeypatch: Any
) -> None:
    model = scripted(otherwise={"text": "one two"})
    gateway = serve(model)
    token = gateway.open_run()
    gateway.chat(token, {**ASKED, "messages": [{"role": "user", "content": "the rollout is known by now"}]})
    disk = SlowDisk(gateway.keeper.lake.submit_encoded)
    monkeypatch.setattr(gateway.keeper.lake, "submit_encoded", disk)
    first = requests.Session()
    url = f"{gateway.where}/r/run/main/v1/chat/completions"
    headers = {"Authorization": f"Bearer {token}"}
    leaving = first.post(url, json={**ASKED, "stream": True}, headers=headers, stream=True, timeout=30)
    assert disk.held.wait(10)
    leaving.close()
    first.close()
    deadline = time.monotonic() + 10
    while gateway.admin("GET", "runs/run").json()["in_flight"] and time.monotonic() < deadline:
        time.sleep(0.02)
    replies: list[requests.Response] = []
    again = threading.Thread(
        target=lambda: replies.append(
            gateway.chat(token, {**ASKED, "stream": True}, **{"x-stainless-retry-count": "1"})
        )
    )
    again.start()
    again.join(0.5)
    try:
        assert not replies, "nothing of it is on disk yet"
    finally:
        disk.go()
    again.join(20)
    assert replies[0].headers["x-silva-capture"] == "repeated"
    monkeypatch.undo()
    assert len([node for node in gateway.nodes() if node.message.role == "assistant"]) == 2
    assert model.requests == 2

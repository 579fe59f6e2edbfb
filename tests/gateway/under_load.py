"""What tests of changing a policy version under load share: clients that never rest, what a model that takes ids
answers, and who said that they answered."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterable
from typing import Any

from silva.models.scripted import tokens
from silva.tree import Node


def completed(body: dict[str, Any], text: str, fingerprint: str) -> dict[str, Any]:
    """The completion of a request by ids, of that text, each id with a log-probability."""
    ids = [*text.encode(), tokens.END]
    choice = {"index": 0, "text": "", "token_ids": ids, "prompt_token_ids": body["prompt"], "finish_reason": "stop"}
    choice["logprobs"] = {"token_logprobs": [-0.1] * len(ids)}
    usage = {"prompt_tokens": len(body["prompt"]), "completion_tokens": len(ids)}
    return {"model": body["model"], "system_fingerprint": fingerprint, "choices": [choice], "usage": usage}


def generated(body: dict[str, Any], text: str, version: str) -> dict[str, Any]:
    """The same as SGLang says it."""
    ids = [*text.encode(), tokens.END]
    meta = {"finish_reason": {"type": "stop"}, "prompt_tokens": len(body["input_ids"]), "completion_tokens": len(ids)}
    meta |= {"weight_version": version, "output_token_logprobs": [[-0.1, number, None] for number in ids]}
    return {"text": text, "output_ids": ids, "prompt_token_ids": body["input_ids"], "meta_info": meta}


def versions_kept(nodes: Iterable[Node]) -> dict[str, set[str]]:
    """For every version a node carries, who said that they answered."""
    found: dict[str, set[str]] = {}
    for node in nodes:
        if node.message.role == "assistant":
            found.setdefault(node.policy_version, set()).add(node.message.text.split()[0])
    return found


class Load:
    """Clients in a closed loop, each in a rollout of its own; what went wrong for them is in `failed`.

    Args:
        ask: asks as that client for the so-manieth time; what went wrong, "" where nothing did.
        clients: how many.
    """

    def __init__(self, ask: Callable[[int, int], str], clients: int = 6) -> None:
        self.failed: list[str] = []
        self.answered = 0
        self._ask = ask
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._client, args=(number,)) for number in range(clients)]

    def _client(self, number: int) -> None:
        for turn in itertools.count():
            if self._over.is_set():
                return
            if wrong := self._ask(number, turn):
                self.failed.append(wrong)
            self.answered += 1

    def more(self, count: int) -> None:
        """Return once so many more were answered."""
        wanted = self.answered + count
        while self.answered < wanted and any(thread.is_alive() for thread in self._threads):
            threading.Event().wait(0.005)

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(60)

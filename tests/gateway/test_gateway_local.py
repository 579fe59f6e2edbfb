"""The bundled model behind the gateway: started by the first request, exact ids from end to end."""

from __future__ import annotations

import time
from typing import Any

import pytest

from silva.tree import seen_ids, token_walk

ASKED: dict[str, Any] = {
    "model": "smol",
    "messages": [{"role": "system", "content": "Be short."}, {"role": "user", "content": "Name a colour."}],
    "max_tokens": 12,
    "temperature": 0,
}
LOOK: dict[str, Any] = {
    "type": "function",
    "function": {"name": "look", "description": "Look at the sky.", "parameters": {"type": "object", "properties": {}}},
}


@pytest.mark.slow
def test_turns_of_the_local_model_are_sent_as_the_ids_it_saw_and_sampled(serve: Any) -> None:
    from silva.models.exact import open_renderer

    models = {"smol": {"backends": [{"provider": "local", "idle": 600}], "renderer": "local"}}
    gateway = serve(models=models, limits={"wait_seconds": 300})
    token = gateway.open_run()
    messages: list[Any] = list(ASKED["messages"])
    started = time.monotonic()
    for turn in range(4):
        answer = gateway.http.post(
            f"{gateway.where}/r/run/main/v1/chat/completions",
            json={**ASKED, "messages": messages, "tools": [LOOK], "stream": turn == 2},
            headers={"Authorization": f"Bearer {token}"},
            timeout=300,
        )
        assert answer.ok, answer.text
        said = (
            answer.json()["choices"][0]["message"]
            if turn != 2
            else {"role": "assistant", "content": streamed_text(answer.text)}
        )
        messages += [said, {"role": "user", "content": f"Another, number {turn} ☃."}]
    assert time.monotonic() - started < 280
    (tree,) = gateway.trees()
    (leaf,) = tree.leaves
    walk = tree.walk(leaf.id)
    exact = token_walk(walk)
    assert list(exact.ids) == seen_ids(walk)
    assert all(node.attributes.get("tokens") is None for node in walk), "no turn began anew"
    assert sum(exact.sampled) == sum(node.tokens.sampled for node in walk if node.tokens)
    assert all(value <= 0 for value in exact.logprobs)
    versions = {node.policy_version for node in walk if node.message.role == "assistant"}
    assert len(versions) == 1 and "" not in versions
    text = open_renderer("local").text(exact.ids)
    assert text.count("<|im_start|>assistant") == 4 and "number 2 ☃." in text


def streamed_text(events: str) -> str:
    """The words of a stream."""
    import json

    lines = [line.removeprefix("data: ") for line in events.splitlines() if line.startswith("data: {")]
    return "".join(c["delta"].get("content") or "" for line in lines for c in json.loads(line)["choices"])

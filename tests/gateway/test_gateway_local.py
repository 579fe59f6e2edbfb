"""Local models behind the gateway, bundled or of a folder: started by the first request, exact ids from end to end."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from silva.errors import UsageError
from silva.models.gateway.config import Limits, LocalBackends, Route
from silva.models.gateway.providers.local import LocalProvider
from silva.models.gateway.routes import RouteState
from silva.models.gateway.routing.fleet import Fleet
from silva.models.tiny import Shape, write_tiny
from silva.tree import assistant, seen_ids, token_walk, user

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


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("models") / "tiny-1"
    heard = [((user(f"Name colour {n}."), assistant("Green.")), ()) for n in range(4)]
    write_tiny(place, heard, Shape(vocabulary=300, width=32, inner=48, layers=2, heads=2, key_heads=1, context=256))
    return place


def test_a_folder_of_weights_is_started_and_rendered_as_its_own(tiny: Path) -> None:
    served = LocalBackends(provider="local", weights=tiny)
    chosen = LocalProvider("policy", served).chosen
    assert chosen.command[-2:] == ("--weights", str(tiny)) and chosen.model == "tiny-1"
    route = RouteState("policy", Route(backends=(served,)), Limits())
    assert route.renderer is not None
    ids = route.renderer.render((user("Name colour 3."),))
    assert route.renderer.text(ids) == "<|user|>Name colour 3.<|end|><|assistant|>"


def test_routes_of_several_weights_say_which_renderer_they_need(tiny: Path) -> None:
    both = (LocalBackends(provider="local", weights=tiny), LocalBackends(provider="local"))
    with pytest.raises(UsageError, match=r"models\.policy\.renderer"):
        RouteState("policy", Route(backends=both), Limits())


async def test_a_folder_without_a_model_is_refused_before_anything_is_started(tmp_path: Path) -> None:
    (tmp_path / "nothing").mkdir()
    route = Route(backends=(LocalBackends(provider="local", weights=tmp_path / "nothing"),))
    with pytest.raises(UsageError, match=r"model folder nothing: config\.json is missing"):
        await LocalProvider("policy", route.backends[0]).start(Fleet())  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="rename it"):
        LocalProvider("policy", LocalBackends(provider="local", weights=tmp_path / "a name"))


@pytest.mark.slow
def test_turns_of_a_folders_model_are_exact_too(serve: Any, tiny: Path) -> None:
    pytest.importorskip("torch")
    route = {"backends": [{"provider": "local", "weights": str(tiny), "threads": 1, "idle": 600}]}
    gateway = serve(models={"policy": route}, limits={"wait_seconds": 100})
    token = gateway.open_run()
    messages: list[Any] = [{"role": "user", "content": "Name colour 1."}]
    for turn in range(2):
        body = {"model": "policy", "messages": messages, "max_tokens": 6, "seed": turn}
        answer = gateway.post("/r/run/main/v1/chat/completions", token, body)
        assert answer.ok, answer.text
        messages += [answer.json()["choices"][0]["message"], {"role": "user", "content": "Another."}]
    (tree,) = gateway.trees()
    (leaf,) = tree.leaves
    walk = tree.walk(leaf.id)
    assert list(token_walk(walk).ids) == seen_ids(walk)
    versions = {node.policy_version.partition("@")[0] for node in walk if node.message.role == "assistant"}
    assert versions == {"tiny-1"}


@pytest.mark.slow
@pytest.mark.parametrize("stream", [False, True])
def test_a_program_that_sets_no_bound_gets_all_the_context_has_room_for(serve: Any, tiny: Path, stream: bool) -> None:
    pytest.importorskip("torch")
    route = {"backends": [{"provider": "local", "weights": str(tiny), "threads": 1, "idle": 600}]}
    gateway = serve(models={"policy": route}, limits={"wait_seconds": 100})
    body = {"model": "policy", "messages": [{"role": "user", "content": "Name colour 1."}], "seed": 3, "stream": stream}
    answer = gateway.post("/r/run/main/v1/chat/completions", gateway.open_run(), body)
    assert answer.ok, answer.text
    (node,) = [node for node in gateway.nodes() if node.message.role == "assistant"]
    assert node.tokens is not None and node.tokens.sampled > 16
    assert node.finish_reason == "stop" or len(node.tokens.ids) == 256  # the tiny model's context


def streamed_text(events: str) -> str:
    """The words of a stream."""
    import json

    lines = [line.removeprefix("data: ") for line in events.splitlines() if line.startswith("data: {")]
    return "".join(c["delta"].get("content") or "" for line in lines for c in json.loads(line)["choices"])

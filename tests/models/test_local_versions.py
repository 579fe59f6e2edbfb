"""Adapters come and go while the local model answers: what each reply was answered by."""

# ruff: noqa: F811 - the fixtures come from the other file
from __future__ import annotations

import asyncio

import pytest

pytest.importorskip("tokenizers")
pytestmark = pytest.mark.slow

from test_local_completions import PLAIN, PROMPT, WORDS, ask, complete, http, served, until  # noqa: E402, F401

from silva.models.local import MODEL  # noqa: E402

SPEAK = {"max_tokens": 3, "ignore_eos": True, "temperature": 1.0, "logprobs": None}


async def load(session, word: str, status: int = 200, **fields):
    body = {"lora_name": word, "lora_path": word, **fields}
    return await ask(session, "/v1/load_lora_adapter", body, status)


def word_of(said: dict) -> str:
    """The word a reply says, where it says one only."""
    ids = set(said["choices"][0]["token_ids"])
    return next((word.strip() for word, token in WORDS.items() if ids == {token}), "base")


async def test_three_versions_in_one_batch_each_say_their_own(served, http) -> None:
    labels = {word: (await load(http, word))["policy_version"] for word in ("red", "blue")}
    labels["gold"] = (await load(http, "gold", policy_version="step-3"))["policy_version"]
    assert (
        labels["gold"] == "step-3" and labels["red"].startswith(f"{served.base}+") and labels["red"] != labels["blue"]
    )
    listed = (await ask(http, "/v1/models", None))["data"]
    assert [(one["id"], one["parent"], one["root"]) for one in listed] == [
        (MODEL, None, MODEL),
        ("red", MODEL, "red"),
        ("blue", MODEL, "blue"),
        ("gold", MODEL, "gold"),
    ]
    names = ["red", "blue", "gold", MODEL, "base"] * 4
    long = [*PROMPT, *range(300, 330)]
    replies = await asyncio.gather(*(complete(http, model=name, prompt=long, **SPEAK) for name in names))
    for name, reply in zip(names, replies, strict=True):
        assert word_of(reply) == (name if name in labels else "base")
        assert reply["system_fingerprint"] == labels.get(name, served.base)
        assert reply["model"] == name
    chat = {"model": "blue", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 4, "return_token_ids": True}
    async with http.post("/v1/chat/completions", json=chat) as reply:
        assert reply.headers["x-silva-policy-version"] == labels["blue"]
        assert (await reply.json())["choices"][0]["token_ids"] == [4461] * 4


async def test_switching_and_loading_under_load_fails_nothing_and_every_reply_names_its_version(served, http) -> None:
    labels = {served.base: "base"}
    for word in ("red", "blue"):
        labels[(await load(http, word))["policy_version"]] = word
    over = asyncio.Event()
    seen: list[tuple[str, str]] = []

    async def client(number: int) -> None:
        while not over.is_set():
            async with http.post("/v1/completions", json={**PLAIN, **SPEAK, "model": MODEL, "seed": number}) as reply:
                assert reply.status == 200, await reply.text()
                said = await reply.json()
                assert reply.headers["x-silva-policy-version"] == said["system_fingerprint"]
                seen.append((labels[said["system_fingerprint"]], word_of(said)))

    clients = [asyncio.create_task(client(number)) for number in range(6)]
    for name in ("red", "blue", "base", "gold", "red"):
        if name == "gold":
            labels[(await load(http, "gold"))["policy_version"]] = "gold"
        switched = await ask(http, "/silva/policy", {"version": name})
        assert switched["version"] == name
        after = await complete(http, model=MODEL, **SPEAK)  # asked after the switch was answered
        assert word_of(after) == name
        count = len(seen)
        await until(lambda count=count: len(seen) >= count + 6)
    over.set()
    await asyncio.gather(*clients)
    assert all(told == word for told, word in seen)
    assert {word for _, word in seen} == {"red", "blue", "gold", "base"}


async def test_an_adapter_in_use_is_unloaded_once_its_last_reply_is_done(served, http) -> None:
    await load(http, "red")
    long = {**SPEAK, "max_tokens": 60}
    under_way = asyncio.create_task(complete(http, model="red", **long))
    await until(lambda: any(job.adapter for job in served.engine._running))
    unloading = asyncio.create_task(ask(http, "/v1/unload_lora_adapter", {"lora_name": "red"}))
    await until(lambda: not served.app.serves("red"))
    assert "no model 'red'" in await complete(http, 404, model="red")
    assert not unloading.done() and not under_way.done()
    assert word_of(await under_way) == "red"
    assert (await unloading)["unloaded"] == "red"
    # The engine lets go of its rows between two steps, which may come a moment after the answer.
    await until(lambda: not any(owner for owner, _ in list(served.engine._prefixes._rows)))


async def test_an_adapter_replaced_in_place_answers_with_its_new_weights_from_then_on(served, http) -> None:
    await load(http, "red")
    assert "already loaded" in await load(http, "red", 400)
    await ask(http, "/silva/policy", {"version": "red"})
    under_way = asyncio.create_task(complete(http, model="red", **{**SPEAK, "max_tokens": 40}))
    await until(lambda: any(job.adapter for job in served.engine._running))
    body = {"lora_name": "red", "lora_path": str(served.home / "allowed" / "blue"), "load_inplace": True}
    await ask(http, "/v1/load_lora_adapter", body)
    assert word_of(await complete(http, model="red", **SPEAK)) == "blue"
    assert word_of(await complete(http, model=MODEL, **SPEAK)) == "blue"
    assert word_of(await under_way) == "red"


async def test_what_may_not_be_loaded_switched_or_unloaded_is_refused(served, http) -> None:
    for path in ("../outside", "link", str(served.home / "outside"), ".", "", "/etc"):
        assert "outside" in await ask(http, "/v1/load_lora_adapter", {"lora_name": "a", "lora_path": path}, 403)
    assert "no adapter at 'none'" in await ask(
        http, "/v1/load_lora_adapter", {"lora_name": "a", "lora_path": "none"}, 404
    )
    said = await ask(http, "/v1/load_lora_adapter", {"lora_name": "a", "lora_path": "misfit"}, 400)
    assert said == "adapter misfit: it was trained on llama, this server has smollm2-135m-instruct"
    said = await ask(http, "/v1/load_lora_adapter", {"lora_name": "a", "lora_path": "stranger"}, 400)
    assert said.startswith(f"adapter stranger: it was trained on {MODEL} ({'0' * 12}), this server has {MODEL} (")
    await load(http, "renamed")  # by the digest it is this base's, whatever its folder was called
    await ask(http, "/v1/unload_lora_adapter", {"lora_name": "renamed"})
    for name in (MODEL, "base", "", "a b", "x" * 129):
        assert "cannot name" in await load(http, "red", 400, lora_name=name)
    assert "policy_version" in await load(http, "red", 400, policy_version="two words")
    assert "cannot be read" in await ask(http, "/v1/load_lora_adapter", {"lora_name": 3}, 400)
    assert "no model 'red'" in await ask(http, "/silva/policy", {"version": "red"}, 404)
    assert "no adapter 'red'" in await ask(http, "/v1/unload_lora_adapter", {"lora_name": "red"}, 404)

    await load(http, "red", policy_version="mine")
    assert "other weights" in await load(http, "blue", 409, policy_version="mine")
    await ask(http, "/silva/policy", {"version": "red"})
    assert "switch" in await ask(http, "/v1/unload_lora_adapter", {"lora_name": "red"}, 409)
    state = await ask(http, "/silva/policy", None)
    assert (state["version"], state["policy_version"]) == ("red", "mine")
    assert [one["version"] for one in state["loaded"]] == ["base", "red"]
    assert (await ask(http, "/v1/models", None))["data"][0]["policy_version"] == "mine"
    assert (await ask(http, "/silva/policy", {"version": "base"}))["previous"] == "red"

"""`/v1/completions`, `/tokenize` and the adapters' routes of the local model, over a real socket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from types import SimpleNamespace

import aiohttp
import pytest

pytest.importorskip("tokenizers")
pytestmark = pytest.mark.slow

from adapter_folders import constant_input, random_adapter, speaking_adapter  # noqa: E402

from silva.models.local import MODEL  # noqa: E402
from silva.models.serving import ServerThread  # noqa: E402

TOKEN = "a token of this test"
WORDS = {" red": 2382, " blue": 4461, " gold": 4231}
PROMPT = [1, 4093, 198, 1780, 314, 260, 3575, 282, 4649, 47, 2, 198, 1, 520, 9531, 198]
PLAIN = {"prompt": PROMPT, "max_tokens": 12, "temperature": 0, "logprobs": 1, "return_token_ids": True}


@pytest.fixture(scope="module")
def served(tmp_path_factory) -> Iterator[SimpleNamespace]:
    """The local model behind a socket, with a folder of adapters that say one word each."""
    from silva.models.bundled import weights_folder
    from silva.models.local.app import LocalApp
    from silva.models.local.engine import Engine
    from silva.models.local.prompt import Prompter
    from silva.models.local.weights import fingerprint

    home = tmp_path_factory.mktemp("adapters")
    root = home / "allowed"
    folder = weights_folder()
    engine = Engine(folder, rows=16)
    direction = constant_input(engine.network)
    for word, token in WORDS.items():
        speaking_adapter(root / word.strip(), engine.network, direction, token)
    random_adapter(root / "misfit", 1, ("self_attn.q_proj",), base_model_name_or_path="llama")
    random_adapter(root / "stranger", 1, ("self_attn.q_proj",), base_digest="0" * 12)
    known = fingerprint(folder).partition("@")[2]
    random_adapter(root / "renamed", 1, ("self_attn.q_proj",), base_digest=known, base_model_name_or_path="mine")
    random_adapter(home / "outside", 1, ("self_attn.q_proj",))
    (root / "link").symlink_to(home / "outside")
    app = LocalApp(engine, Prompter(folder), fingerprint(folder), TOKEN, root)
    with ServerThread(app) as server:
        yield SimpleNamespace(
            url=server.url.removesuffix("/v1"), engine=engine, app=app, base=fingerprint(folder), home=home
        )


@pytest.fixture
async def http(served) -> AsyncIterator[aiohttp.ClientSession]:
    head = {"authorization": f"Bearer {TOKEN}"}
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(served.url, headers=head, connector=connector) as session:
        yield session
        for name in [entry["id"] for entry in (await ask(session, "/v1/models", None))["data"]][1:]:
            await ask(session, "/silva/policy", {"version": "base"})
            await ask(session, "/v1/unload_lora_adapter", {"lora_name": name})


async def ask(session: aiohttp.ClientSession, path: str, body: dict | None, status: int = 200):
    """The decoded answer; an error's message where another status is expected."""
    sent = session.get(path) if body is None else session.post(path, json=body)
    async with sent as reply:
        text = await reply.text()
        assert reply.status == status, text
        found = json.loads(text)
        return found if status == 200 else found["error"]["message"]


async def until(condition: Callable[[], object]) -> None:
    """Wait for it; what never comes true ends with the test run's own time limit."""
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(0.01)


async def complete(session: aiohttp.ClientSession, status: int = 200, **fields):
    return await ask(session, "/v1/completions", {**PLAIN, **fields}, status)


async def events(session: aiohttp.ClientSession, **fields) -> list[dict]:
    found: list[dict] = []
    async with session.post("/v1/completions", json={**PLAIN, **fields, "stream": True}) as reply:
        assert reply.status == 200
        async for line in reply.content:
            if line.startswith(b"data: {"):
                found.append(json.loads(line[6:]))
            elif line.startswith(b"data: "):
                assert line == b"data: [DONE]\n"
    return found


async def test_ids_in_ids_out(served, http) -> None:
    said = await complete(http, model=MODEL)
    choice = said["choices"][0]
    assert choice["text"] == "The capital of France is Paris."
    assert choice["token_ids"] == [504, 3575, 282, 4649, 314, 7042, 30, 2]
    assert choice["prompt_token_ids"] == PROMPT
    assert (choice["finish_reason"], choice["stop_reason"]) == ("stop", None)
    block = choice["logprobs"]
    assert block["tokens"] == ["The", " capital", " of", " France", " is", " Paris", ".", "<|im_end|>"]
    assert block["text_offset"] == [0, 3, 11, 14, 21, 24, 30, 31]
    # what vLLM 0.32 gives for this prompt, in bfloat16
    assert block["token_logprobs"][:3] == pytest.approx([-0.637, -0.007, -0.004], abs=0.1)
    assert block["top_logprobs"][0]["The"] == block["token_logprobs"][0]
    assert said["system_fingerprint"] == served.base
    assert said["usage"]["completion_tokens"] == 8 and said["usage"]["prompt_tokens"] == 16

    wide = (await complete(http, logprobs=4, max_tokens=1))["choices"][0]["logprobs"]
    assert len(wide["top_logprobs"][0]) == 4 and max(wide["top_logprobs"][0].values()) == wide["token_logprobs"][0]
    none = (await complete(http, logprobs=None, return_token_ids=False, max_tokens=1))["choices"][0]
    assert none["logprobs"] is None and "token_ids" not in none
    numbered = await complete(http, max_tokens=1, return_tokens_as_token_ids=True)
    assert numbered["choices"][0]["logprobs"]["tokens"] == ["token_id:504"]


async def test_a_string_is_read_as_its_ids(http) -> None:
    text = (await ask(http, "/detokenize", {"tokens": PROMPT}))["prompt"]
    assert text == "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n"
    cut = await ask(http, "/tokenize", {"prompt": text, "return_token_strs": True})
    assert cut["tokens"] == PROMPT and cut["count"] == 16 and cut["max_model_len"] == 8192
    assert cut["token_strs"][:2] == ["<|im_start|>", "user"]
    for prompt in (text, [text], [PROMPT]):
        said = await complete(http, prompt=prompt)
        assert said["choices"][0]["prompt_token_ids"] == PROMPT
    assert said["usage"]["prompt_tokens_details"]["cached_tokens"] in (0, 15)  # 16 tokens are the shortest kept
    talk = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
    ready = await ask(http, "/tokenize", {"messages": talk})
    bare = await ask(http, "/tokenize", {"messages": talk, "add_generation_prompt": False})
    assert ready["tokens"][: bare["count"]] == bare["tokens"] and ready["count"] > bare["count"]
    chat = {"messages": talk, "max_tokens": 1, "return_token_ids": True}
    assert (await ask(http, "/v1/chat/completions", chat))["prompt_token_ids"] == ready["tokens"]


async def test_how_a_reply_ends_and_what_its_text_holds(served, http, monkeypatch: pytest.MonkeyPatch) -> None:
    cut = (await complete(http, stop=["France", "never"]))["choices"][0]
    assert (cut["text"], cut["finish_reason"], cut["stop_reason"]) == ("The capital of ", "stop", "France")
    named = (await complete(http, stop_token_ids=[7042]))["choices"][0]
    assert (named["text"], named["finish_reason"], named["stop_reason"]) == ("The capital of France is", "stop", 7042)
    assert named["token_ids"][-1] == 7042
    long = (await complete(http, ignore_eos=True, skip_special_tokens=False))["choices"][0]
    assert long["finish_reason"] == "length" and len(long["token_ids"]) == 12
    assert long["text"].startswith("The capital of France is Paris.<|im_end|>")
    bare = (await complete(http, ignore_eos=True))["choices"][0]
    assert "<|im_end|>" not in bare["text"] and bare["token_ids"] == long["token_ids"]
    unbounded = {name: value for name, value in PLAIN.items() if name != "max_tokens"} | {"ignore_eos": True}
    default = await ask(http, "/v1/completions", unbounded)
    assert default["usage"]["completion_tokens"] == 16
    monkeypatch.setattr(served.engine.network, "context", 64)  # 8,192 would be read and written for minutes
    filled = (await complete(http, prompt=[5] * 40, max_tokens=None, ignore_eos=True))["usage"]
    assert filled["total_tokens"] == 64


async def test_a_seed_repeats_a_draw(http) -> None:
    hot = {"temperature": 1.5, "seed": 11, "max_tokens": 8, "top_p": 0.95, "top_k": 50}
    await complete(http, **hot)  # those after it begin with what was read for it: bfloat16 rounds otherwise elsewhere
    first, again, other = [await complete(http, **{**hot, "seed": seed}) for seed in (11, 11, 12)]
    ids = [said["choices"][0]["token_ids"] for said in (first, again, other)]
    assert ids[0] == ids[1] != ids[2]


async def test_a_stream_says_what_the_whole_says(http) -> None:
    for fields in ({}, {"stop": [" France is"]}, {"stop_token_ids": [7042]}, {"max_tokens": 1}):
        whole = (await complete(http, **fields))["choices"][0]
        parts = await events(http, **fields, stream_options={"include_usage": True})
        *body, usage = parts
        choices = [part["choices"][0] for part in body]
        assert "".join(choice["text"] for choice in choices) == whole["text"]
        assert [number for choice in choices for number in choice["token_ids"]] == whole["token_ids"]
        logprobs = [number for choice in choices for number in choice["logprobs"]["token_logprobs"]]
        assert logprobs == pytest.approx(whole["logprobs"]["token_logprobs"], abs=5e-3)
        offsets = [number for choice in choices for number in choice["logprobs"]["text_offset"]]
        assert offsets == whole["logprobs"]["text_offset"]
        assert ["prompt_token_ids" in choice for choice in choices] == [True] + [False] * (len(choices) - 1)
        assert choices[0]["prompt_token_ids"] == PROMPT
        assert (choices[-1]["finish_reason"], choices[-1]["stop_reason"]) == (
            whole["finish_reason"],
            whole["stop_reason"],
        )
        assert usage["choices"] == [] and usage["usage"]["completion_tokens"] == len(whole["token_ids"])


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"prompt": [1, 49152]}, "id 49152"),
        ({"prompt": [1, -1]}, "id -1"),
        ({"prompt": []}, "empty"),
        ({"prompt": ""}, "empty"),
        ({"prompt": None}, "empty"),
        ({"prompt": ["a", "b"]}, "one prompt"),
        ({"prompt": [1, "a"]}, "mixes"),
        ({"prompt": [5] * 8192}, "maximum context length is 8192"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": -3}, "max_tokens"),
        ({"temperature": -1}, "temperature"),
        ({"top_p": 0}, "top_p"),
        ({"top_k": -2}, "top_k"),
        ({"seed": 1 << 70}, "64"),
        ({"logprobs": 21}, "logprobs"),
        ({"stop_token_ids": [99999]}, "99999"),
        ({"echo": True}, "echo"),
        ({"n": 2}, "n is not"),
        ({"min_tokens": 3}, "min_tokens"),
        ({"prompt": "x", "max_tokens": "many"}, "max_tokens"),
    ],
)
async def test_what_cannot_be_answered_is_refused_with_its_reason(http, fields, words) -> None:
    assert words in await complete(http, 400, **fields)


TALK = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 2}
NEUTRAL = {
    "response_format": {"type": "text"},
    "min_p": 0,
    "logit_bias": {},
    "presence_penalty": 0.0,
    "tool_choice": None,
}
NEUTRAL |= {"repetition_penalty": 1, "function_call": None, "chat_template_kwargs": {}}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("response_format", {"type": "json_object"}),
        ("min_p", 0.1),
        ("logit_bias", {"5": 100}),
        ("repetition_penalty", 1.2),
        ("stop_token_ids", [5]),
        ("functions", [{"name": "look"}]),
        ("chat_template_kwargs", {"enable_thinking": False}),
        ("tool_choice", "required"),
        ("tool_choice", {"type": "function", "function": {"name": "look"}}),
    ],
)
async def test_what_a_chat_does_not_offer_is_refused_by_name(http, field, value) -> None:
    assert field in await ask(http, "/v1/chat/completions", {**TALK, field: value}, 400)
    assert (await ask(http, "/v1/chat/completions", {**TALK, **NEUTRAL, "tool_choice": "auto"}))["choices"]


async def test_what_is_nested_without_end_is_refused(http) -> None:
    for path in ("/v1/chat/completions", "/v1/completions", "/tokenize"):
        async with http.post(path, data=b'{"response_format":' + b"[" * 100_000) as reply:
            assert reply.status == 400, path


async def test_unknown_models_routes_and_strangers_are_refused(served, http) -> None:
    assert "no model 'gpt'" in await complete(http, 404, model="gpt")
    assert "/v1/completions" in await ask(http, "/v1/embeddings", {}, 404)
    assert "POST" in await ask(http, "/v1/completions", None, 405)
    async with aiohttp.ClientSession(served.url) as stranger:
        for path in ("/v1/completions", "/v1/load_lora_adapter", "/silva/policy", "/tokenize"):
            assert "token" in await ask(stranger, path, {}, 401)


async def test_a_hundred_clients_are_all_answered(http) -> None:
    replies = await asyncio.gather(
        *(complete(http, prompt=[*PROMPT, *PROMPT, 100 + i], max_tokens=2, ignore_eos=True) for i in range(100))
    )
    assert [len(reply["choices"][0]["token_ids"]) for reply in replies] == [2] * 100


async def test_a_client_that_hangs_up_frees_its_row(served, http) -> None:
    endless = {**PLAIN, "prompt": PROMPT * 2, "max_tokens": 7000, "ignore_eos": True, "temperature": 1}
    reply = await http.post("/v1/completions", json={**endless, "stream": True})
    await reply.content.readline()
    waiting = asyncio.create_task(http.post("/v1/completions", json=endless))
    await until(lambda: len(served.engine._running) == 2)
    reply.close()
    waiting.cancel()
    await until(lambda: not (served.engine._running or served.engine._reading or served.app.versions.plain.in_flight))


async def test_stopping_the_server_ends_a_stream(served, http) -> None:
    from silva.models.bundled import weights_folder
    from silva.models.local.app import LocalApp
    from silva.models.local.engine import Engine

    engine = Engine(weights_folder(), rows=2)
    with ServerThread(LocalApp(engine, served.app._prompter, "x", None)) as other:
        async with aiohttp.ClientSession(other.url.removesuffix("/v1")) as session:
            assert "--token-env" in await ask(session, "/silva/policy", {"version": "base"}, 403)
            body = {**PLAIN, "max_tokens": 8000, "ignore_eos": True, "stream": True}
            reply = await session.post("/v1/completions", json=body)
            assert (await reply.content.readline()).startswith(b"data: ")
            await asyncio.to_thread(other.stop)
            with pytest.raises((aiohttp.ClientError, ConnectionError)):
                while await reply.content.readline():
                    pass
    assert not engine._thread.is_alive()

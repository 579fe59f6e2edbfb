"""A folder of weights behind the local server's routes: needs torch, so all of it is slow."""

from __future__ import annotations

import json
from pathlib import Path

import aiohttp
import pytest

from silva.errors import UsageError
from silva.models import Request, Sampling, connect
from silva.models.connect import serve_spec
from silva.models.exact import open_exact
from silva.models.tiny import Shape, write_tiny
from silva.tree import Tool, assistant, call, user

pytestmark = pytest.mark.slow
torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

SHAPE = Shape(vocabulary=400, width=64, inner=96, layers=3, heads=4, key_heads=2, context=512)
HEARD = [((user(f"You see: ball {n} steps left."), assistant("Action: act\nAction Input: {}")), ()) for n in range(4)]
ACT = Tool(name="act", description="Act.", parameters={"type": "object"})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("models") / "tiny-1"
    write_tiny(place, HEARD, SHAPE, seed=1)
    return place


def chances(place: Path, ids: tuple[int, ...], drawn: tuple[int, ...], adapter: Path | None = None):
    """transformers' log-probabilities of the drawn ids after `ids`."""
    model = transformers.AutoModelForCausalLM.from_pretrained(place, dtype=torch.float32)
    if adapter is not None:
        peft = pytest.importorskip("peft")
        model = peft.PeftModel.from_pretrained(model, adapter)
    with torch.inference_mode():
        logits = model(torch.tensor([[*ids, *drawn]])).logits[0, len(ids) - 1 : -1]
    return torch.log_softmax(logits.float(), -1).gather(1, torch.tensor(drawn)[:, None])[:, 0]


async def test_its_chances_are_those_of_transformers(folder: Path) -> None:
    wanted = Request(
        messages=(user("You see: ball 3 steps left."),), sampling=Sampling(max_tokens=24, seed=5, logprobs=True)
    )
    served = await serve_spec(f"local:{folder}", threads=1)
    try:
        assert served.endpoint.model == "tiny-1" and served.kind == "silva"
        model = open_exact(served.renderer, served.kind, served.endpoint, api_key=served.key)
        done = await model.complete(wanted)
        await model.close()
    finally:
        assert served.stop is not None
        served.stop()
    assert done.tokens is not None and done.policy_version.startswith("tiny-1@") and done.tokens.sampled == 24
    expected = chances(folder, done.prompt_ids, done.tokens.ids)
    # bfloat16 where the processor has it
    assert torch.allclose(torch.tensor(done.tokens.logprobs), expected, atol=2e-2)


def test_the_network_is_that_of_transformers_also_where_positions_are_stretched(folder: Path, tmp_path: Path) -> None:
    from silva.models.local.network import Network

    for number, rope in enumerate(
        (
            {"rope_type": "default", "rope_theta": 10000.0},
            {"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0},
            {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0}
            | {"high_freq_factor": 4.0, "original_max_position_embeddings": 64},
        )
    ):
        place = tmp_path / f"rope-{number}"
        place.mkdir()
        config = json.loads((folder / "config.json").read_text()) | {"rope_parameters": rope}
        (place / "config.json").write_text(json.dumps(config))
        (place / "model.safetensors").symlink_to(folder / "model.safetensors")
        network = Network(place, torch.float32)
        ids = [(7 * n) % network.vocabulary for n in range(80)]
        referee = transformers.AutoModelForCausalLM.from_pretrained(place, dtype=torch.float32)
        with torch.inference_mode():
            wanted = referee(torch.tensor([ids])).logits[0]
        cache = network.cache(4096)
        cache.reserve(1, 128)
        network.prefill(cache, 0, [ids[:50]], [0])
        assert torch.allclose(network.prefill(cache, 0, [ids[50:79]], [50])[0], wanted[78], atol=1e-4)
        assert torch.allclose(network.step(cache, [ids[79]], [79])[0], wanted[79], atol=1e-4)


def test_its_tokenizer_and_template_are_those_of_transformers(folder: Path) -> None:
    from silva.models.exact import open_renderer

    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    asked = [{"role": "system", "content": "Rules."}, {"role": "user", "content": "You see: a 12 éclair."}]
    text = tokenizer.apply_chat_template(asked, add_generation_prompt=True, tokenize=False)
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    assert tuple(ids) == open_renderer(folder).render((user("You see: a 12 éclair."),))
    assert tokenizer.decode(ids) == "<|user|>You see: a 12 éclair.<|end|><|assistant|>"


async def test_adapters_of_it_are_served_and_others_refused(folder: Path, tmp_path: Path) -> None:
    peft = pytest.importorskip("peft")
    from silva.models.local.server import start_local

    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    config = peft.LoraConfig(r=4, lora_alpha=32, target_modules=["q_proj", "v_proj"], init_lora_weights=False)
    peft.get_peft_model(model, config).save_pretrained(tmp_path / "red")
    stranger = json.loads((tmp_path / "red" / "adapter_config.json").read_text())
    (tmp_path / "blue").mkdir()
    (tmp_path / "blue" / "adapter_model.safetensors").symlink_to(tmp_path / "red" / "adapter_model.safetensors")
    (tmp_path / "blue" / "adapter_config.json").write_text(
        json.dumps({**stranger, "base_model_name_or_path": "some/llama"})
    )
    child = start_local(1, 4, tmp_path, folder)
    headers = {"authorization": f"Bearer {child.token}"}
    base = child.url.removesuffix("/v1")
    try:
        async with aiohttp.ClientSession(headers=headers) as http:
            body = {"lora_name": "red", "lora_path": "red"}
            async with http.post(f"{base}/v1/load_lora_adapter", json=body) as reply:
                assert reply.status == 200, await reply.text()
            async with http.post(
                f"{base}/v1/load_lora_adapter", json={"lora_name": "blue", "lora_path": "blue"}
            ) as reply:
                assert reply.status == 400 and "was trained on llama, this server has tiny-1" in await reply.text()
            asked = {"model": "red", "prompt": [5, 30, 31], "max_tokens": 12, "seed": 2, "ignore_eos": True}
            asked |= {"return_token_ids": True, "logprobs": 1}
            async with http.post(f"{base}/v1/completions", json=asked) as reply:
                said = await reply.json()
            async with http.get(f"{base}/v1/models") as reply:
                listed = (await reply.json())["data"]
    finally:
        child.stop_now()
    assert [(m["id"], m["parent"]) for m in listed] == [("tiny-1", None), ("red", "tiny-1")]
    drawn = said["choices"][0]["token_ids"]
    got = torch.tensor(said["choices"][0]["logprobs"]["token_logprobs"])
    wanted = chances(folder, (5, 30, 31), tuple(drawn), tmp_path / "red")
    assert torch.allclose(got, wanted, atol=2e-2)
    assert not torch.allclose(wanted, chances(folder, (5, 30, 31), tuple(drawn)), atol=2e-2)


async def test_a_chat_goes_on_from_its_own_ids(folder: Path) -> None:
    async with connect(f"local:{folder}", threads=1) as model:
        sampling = Sampling(max_tokens=8, seed=3, logprobs=True)
        first = await model.complete(Request(messages=(user("Go."),), tools=(ACT,), sampling=sampling))
        assert first.tokens is not None
        walk = (user("Go."), first.message, user("And?"))
        second = await model.complete(Request(messages=walk, tools=(ACT,), sampling=sampling))
        seen = first.prompt_ids + first.tokens.ids
        assert second.prompt_ids[: len(seen)] == seen
        asked = (user("Go."), assistant("", call("act", {"action": "left"})), user("And?"))
        assert (await model.complete(Request(messages=asked, tools=(ACT,), sampling=sampling))).tokens is not None


async def test_a_folder_that_cannot_be_served_is_told_in_one_line(folder: Path, tmp_path: Path) -> None:
    for spec, words in (
        (f"local:{tmp_path / 'none'}", "there is no such folder"),
        (f"local:{tmp_path}", "config.json"),
    ):
        with pytest.raises(UsageError, match=words):
            await serve_spec(spec)
    mixed = tmp_path / "mixed"
    mixed.mkdir()
    for name in ("model.safetensors", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        (mixed / name).write_bytes((folder / name).read_bytes())
    config = json.loads((folder / "config.json").read_text())
    (mixed / "config.json").write_text(json.dumps({**config, "vocab_size": 128}))
    with pytest.raises(UsageError, match=r"model folder mixed: model.embed_tokens.weight has shape"):
        await serve_spec(f"local:{mixed}")
    odd = tmp_path / "a b"
    mixed.rename(odd)
    with pytest.raises(UsageError, match="is served under its folder's name"):
        await serve_spec(f"local:{odd}")

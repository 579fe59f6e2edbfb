"""LoRA adapters in the local model's network and engine, against computations of other kinds."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

pytest.importorskip("tokenizers")
pytest.importorskip("torch")
pytestmark = pytest.mark.slow

import torch  # noqa: E402
from adapter_folders import (  # noqa: E402
    ALL,
    constant_input,
    random_adapter,
    random_tensors,
    speaking_adapter,
    write,
)

from silva.errors import UsageError  # noqa: E402
from silva.models.local import MODEL  # noqa: E402
from silva.models.local.adapter import read_adapter  # noqa: E402
from silva.models.local.network import Network  # noqa: E402

IDS = [1, 504, 3575, 282, 4649, 314, 7042, 30, 2, 198, 1, 520, 9531, 198]
SOME = ("self_attn.q_proj", "self_attn.v_proj", "mlp.up_proj")


@pytest.fixture(scope="module")
def folder() -> Path:
    from silva.models.bundled import weights_folder

    return weights_folder()


@pytest.fixture(scope="module")
def network(folder) -> Network:
    return Network(folder, torch.float32)


def batched_logits(network: Network, adapters: list) -> list[list]:
    """Logits of every place from the 5th, each row with its own adapter, all rows in one batch."""
    cache = network.cache(4096)
    cache.reserve(len(adapters), 64)
    logits = [[read] for read in network.prefill(cache, 0, [IDS[:5]] * len(adapters), [0] * len(adapters), adapters)]
    for place in range(5, len(IDS)):
        step = network.step(cache, [IDS[place]] * len(adapters), [place] * len(adapters), adapters)
        for row, line in enumerate(step):
            logits[row].append(line)
    return logits


def merged_logits(folder: Path, adapter: Path | None, dtype, scale: float | None = None):
    """The same of transformers, the adapter's product added to its weights here."""
    transformers = pytest.importorskip("transformers")
    from safetensors.torch import load_file

    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    if adapter is not None:
        tensors = load_file(adapter / "adapter_model.safetensors")
        state = dict(model.named_parameters())
        for name, down in tensors.items():
            if name.endswith("lora_A.weight"):
                stem = name.removesuffix(".lora_A.weight")
                weight = state[stem.removeprefix("base_model.model.") + ".weight"]
                weight.data += scale * (tensors[f"{stem}.lora_B.weight"].double() @ down.double()).float()
    with torch.inference_mode():
        return model.to(dtype)(torch.tensor([IDS])).logits[0, 4:].float()


@pytest.mark.parametrize(("name", "tolerance"), [("float32", 2e-3), ("bfloat16", 0.05)])
def test_a_batch_of_adapters_computes_what_merged_weights_compute(tmp_path, folder, name, tolerance) -> None:
    dtype = getattr(torch, name)
    network = Network(folder, dtype)
    whole = random_adapter(tmp_path / "whole", 1)
    some = random_adapter(tmp_path / "some", 2, SOME, rank=4, use_rslora=True, lora_alpha=6)
    adapters = [None, *(read_adapter(path, network, MODEL) for path in (whole, some))]
    got = batched_logits(network, [adapters[1], adapters[0], adapters[2], adapters[1]])
    wanted = [merged_logits(folder, path, dtype, scale) for path, scale in ((whole, 2.0), (None, None), (some, 3.0))]
    plain, changed = wanted[1], wanted[0]
    assert float((plain - changed).abs().max()) > 2  # the adapter does something
    for row, reference in zip(got, [wanted[0], wanted[1], wanted[2], wanted[0]], strict=True):
        ours = torch.stack(row)
        error = (ours - reference).abs().max() / reference.abs().max()
        assert float(error) < tolerance


def test_peft_reads_the_same_folder_the_same_way(tmp_path, folder, network) -> None:
    peft = pytest.importorskip("peft")
    transformers = pytest.importorskip("transformers")
    base = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    config = peft.LoraConfig(r=4, lora_alpha=6, use_rslora=True, target_modules=["q_proj", "down_proj"])
    made = peft.get_peft_model(base, config)
    for name, weight in made.named_parameters():
        if "lora_B" in name:  # peft begins with zeros
            torch.nn.init.normal_(weight, std=0.05, generator=torch.Generator().manual_seed(3))
    made.save_pretrained(tmp_path / "made")
    written = json.loads((tmp_path / "made" / "adapter_config.json").read_text())
    assert written["base_model_name_or_path"].rpartition("/")[2] == folder.name
    merged = made.merge_and_unload()
    with torch.inference_mode():
        reference = merged(torch.tensor([IDS])).logits[0, 4:]
    adapter = read_adapter(tmp_path / "made", network, MODEL)
    ours = torch.stack(batched_logits(network, [None, adapter])[1])
    assert torch.allclose(ours, reference, atol=2e-3)


def job(prompt: list[int], adapter, most: int = 10, temperature: float = 0.0, seed: int | None = None):
    from silva.models.local.engine import Job, choice

    done = threading.Event()
    made = Job(prompt, most, choice(temperature, None, None, seed), lambda j: done.set() if j.finish else None, adapter)
    made.done = done  # type: ignore[attr-defined]
    return made


def together(engine, jobs) -> None:
    for one in jobs:
        engine.submit(one)
    for one in jobs:
        assert one.done.wait(120) and one.fault is None


def new_engine(folder, rows: int = 32):
    from silva.models.local.engine import Engine

    engine = Engine(folder, rows=rows, dtype=torch.float32)
    engine.start()
    return engine


def test_a_mixed_batch_gives_each_version_what_it_gives_alone(tmp_path, folder) -> None:
    engine = new_engine(folder)
    adapters = [
        random_adapter(tmp_path / str(seed), seed, targets) for seed, targets in ((1, ALL), (2, SOME), (3, ALL))
    ]
    versions = [None, *(read_adapter(path, engine.network, MODEL) for path in adapters)]
    prompts = [list(range(100 + 50 * row, 110 + 50 * row + 9 * row)) for row in range(6)]
    mixed = [job(prompt, versions[row % 4], seed=row) for row, prompt in enumerate(prompts)]
    together(engine, mixed)
    engine.stop()
    assert len({one.owner for one in mixed}) == 4
    said = {tuple(one.ids) for one in mixed}
    assert len(said) > 3
    single = new_engine(folder, rows=1)
    for one in mixed:
        alone = job(one.prompt, one.adapter)
        together(single, [alone])
        assert alone.cached == 0
        assert alone.ids == one.ids
        assert alone.logprobs == pytest.approx(one.logprobs, abs=5e-3)
    single.stop()


def test_kept_beginnings_belong_to_one_version_and_go_with_it(tmp_path, folder) -> None:
    engine = new_engine(folder)
    first, second = (read_adapter(random_adapter(tmp_path / str(seed), seed), engine.network, MODEL) for seed in (1, 2))
    prompt = list(range(200, 260))

    def cached(adapter) -> int:
        asked = job(prompt, adapter, most=2)
        together(engine, [asked])
        return asked.cached

    assert [cached(None), cached(first), cached(second)] == [0, 0, 0]
    assert [cached(None), cached(first), cached(second)] == [59, 59, 59]
    beside = [job([*prompt, 7], version, most=3) for version in (first, second)]
    together(engine, beside)  # also where the other row is still in the batch
    assert [one.cached for one in beside] == [60, 60]
    assert beside[0].logprobs != pytest.approx(beside[1].logprobs, abs=0.02)
    engine.forget(first)
    assert [cached(first), cached(second), cached(None)] == [0, 59, 59]
    engine.stop()


def broken(place: Path, how: str) -> tuple[Path, str]:
    """A folder with one fault, and the words its error must hold."""
    tensors = random_tensors(0, ("self_attn.q_proj",))
    key = "base_model.model.model.layers.3.self_attn.q_proj.lora_A.weight"
    targets = ("self_attn.q_proj",)
    changes: dict[str, tuple[dict, str]] = {
        "rank": ({"r": 4}, "shape"),
        "no rank": ({"r": 0}, "rank"),
        "kind": ({"peft_type": "IA3"}, "IA3"),
        "bias": ({"bias": "all"}, "bias"),
        "dora": ({"use_dora": True}, "use_dora"),
        "pissa": ({"init_lora_weights": "pissa"}, "pissa"),
        "pattern": ({"rank_pattern": {"q_proj": 2}}, "rank_pattern"),
        "other base": ({"base_model_name_or_path": "org/Llama-3-8B"}, "Llama-3-8B"),
        "unmet target": ({"target_modules": ["q_proj", "v_proj"]}, "v_proj"),
        "unnamed target": ({"target_modules": ["k_proj"]}, "k_proj"),
        "alpha": ({"lora_alpha": "much"}, "not a LoRA config"),
    }
    if how in changes:
        change, words = changes[how]
        return write(place, tensors, targets, **change), words
    if how == "shape":
        tensors[key] = torch.zeros(8, 577)
    elif how == "half":
        del tensors[key]
    elif how == "layer":
        tensors[key.replace("layers.3", "layers.30")] = tensors[key].clone()
    elif how == "module":
        tensors[key.replace("q_proj", "x_proj")] = tensors[key].clone()
    elif how == "head":
        tensors["base_model.model.lm_head.lora_A.weight"] = tensors[key].clone()
    elif how == "not a number":
        tensors[key][0, 0] = float("nan")
    elif how == "nothing":
        tensors = {}
    written = write(place, tensors, targets)
    if how == "no weights":
        (written / "adapter_model.safetensors").unlink()
    elif how == "cut off":
        whole = (written / "adapter_model.safetensors").read_bytes()
        (written / "adapter_model.safetensors").write_bytes(whole[: len(whole) // 2])
    elif how == "no config":
        (written / "adapter_config.json").unlink()
    elif how == "config text":
        (written / "adapter_config.json").write_bytes(b"\xff{")
    words = {"shape": "shape", "half": "only one", "layer": "layers.30", "module": "x_proj", "head": "lm_head"}
    words |= {"not a number": "finite", "nothing": "no weights", "no weights": "cannot be read"}
    words |= {"cut off": "cannot be read", "no config": "cannot be read", "config text": "not a LoRA config"}
    return written, words[how]


FAULTS = ["rank", "no rank", "kind", "bias", "dora", "pissa", "pattern", "other base", "unmet target", "unnamed target"]
FAULTS += ["alpha", "shape", "half", "layer", "module", "head", "not a number", "nothing", "no weights", "cut off"]
FAULTS += ["no config", "config text"]


@pytest.mark.parametrize("how", FAULTS)
def test_what_does_not_fit_is_refused_in_one_line(tmp_path, network, how) -> None:
    path, words = broken(tmp_path / "odd one", how)
    with pytest.raises(UsageError) as caught:
        read_adapter(path, network, MODEL)
    said = str(caught.value)
    assert words in said and "odd one" in said and "\n" not in said
    assert str(tmp_path) not in said


def test_the_digest_tells_weights_and_scale_apart(tmp_path, network) -> None:
    one = random_adapter(tmp_path / "one", 1, SOME)
    same = random_adapter(tmp_path / "same", 1, SOME)
    scaled = random_adapter(tmp_path / "scaled", 1, SOME, lora_alpha=32)
    other = random_adapter(tmp_path / "other", 2, SOME)
    digests = [read_adapter(path, network, MODEL).digest for path in (one, same, scaled, other)]
    assert digests[0] == digests[1] and len(set(digests)) == 3


def test_an_adapter_can_force_what_is_said(tmp_path, network) -> None:
    """The ground under the tests that tell versions apart by their words."""
    direction = constant_input(network)
    for token in (2382, 4461):
        adapter = read_adapter(speaking_adapter(tmp_path / str(token), network, direction, token), network, MODEL)
        for row in batched_logits(network, [adapter]):
            assert {int(line.argmax()) for line in row} == {token}
            assert min(float(line.topk(2).values.diff().abs()) for line in row) > 5

"""Written out, a version computes what base and adapter compute together."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from policy_folders import MODULES, adapter, base

from silva.errors import UsageError
from silva.train.registry import Registry
from silva.train.registry.export import export_adapter, export_gguf, export_merged
from silva.train.registry.tensors import Tensor, read_tensors, stored, values, write_tensors


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    opened = Registry.open(tmp_path / "lake", make=True)
    opened.begin("tools", base(tmp_path / "small"))
    opened.register("tools", adapter(tmp_path / "a"))
    return opened


@pytest.mark.parametrize("dtype", [None, "F32", "F16"])
def test_merged_weights_are_base_plus_scaled_product_rounded_once(
    registry: Registry, tmp_path: Path, dtype: str | None
) -> None:
    _, version = registry.find("tools-1")
    folder = export_merged(registry, version, tmp_path / "out", base=str(tmp_path / "small"), dtype=dtype)  # type: ignore[arg-type]
    before = read_tensors(tmp_path / "small" / "model.safetensors")
    after = read_tensors(folder / "model.safetensors")
    halves = read_tensors(tmp_path / "a" / "adapter_model.safetensors")
    for name in MODULES:
        pair = [values(halves[f"base_model.model.model.{name}.lora_{half}.weight"]) for half in "BA"]
        exact = values(before[f"model.{name}.weight"]).astype(np.float64) + 2.0 * (pair[0] @ pair[1])
        merged = after[f"model.{name}.weight"]
        assert merged.dtype == (dtype or "BF16")
        unit = {"BF16": 2.0**-8, "F16": 2.0**-11, "F32": 2.0**-20}[merged.dtype]
        np.testing.assert_allclose(values(merged), exact, rtol=unit, atol=1e-5)
    norm = "model.norm.weight"
    assert np.array_equal(values(after[norm]), values(before[norm])) or dtype == "F16"
    assert {file.name for file in folder.iterdir()} == {"config.json", "tokenizer.json", "model.safetensors"}
    said = json.loads((folder / "config.json").read_text())["dtype"]
    assert said == {None: "bfloat16", "F32": "float32", "F16": "float16"}[dtype]


def test_an_adapter_comes_out_as_it_was_kept_and_nothing_is_written_over(registry: Registry, tmp_path: Path) -> None:
    line, version = registry.find("tools-1")
    out = export_adapter(registry, version, tmp_path / "out")
    weights = "adapter_model.safetensors"
    assert (out / weights).read_bytes() == (tmp_path / "a" / weights).read_bytes()
    with pytest.raises(UsageError, match="is there already"):
        export_merged(registry, version, out, base=str(tmp_path / "small"))
    with pytest.raises(UsageError, match="tools-0 is no adapter"):
        export_adapter(registry, line.versions[0], tmp_path / "base")
    base(tmp_path / "other", seed=9)
    with pytest.raises(UsageError, match="other holds other weights"):
        export_merged(registry, version, tmp_path / "wrong", base=str(tmp_path / "other"))
    with pytest.raises(UsageError, match="tools-1 grows from small@.* give --base FOLDER"):  # noqa: RUF043
        export_merged(registry, version, tmp_path / "wrong")
    assert not (tmp_path / "wrong").exists() and not (tmp_path / "base").exists()


def test_a_gguf_that_cannot_be_written_leaves_no_file(registry: Registry, tmp_path: Path) -> None:
    pytest.importorskip("gguf")
    _, version = registry.find("tools-1")
    with pytest.raises(UsageError, match=r"small/config.json lacks what a llama's config has"):
        export_gguf(registry, version, tmp_path / "out" / "x.gguf", base=str(tmp_path / "small"))
    assert list((tmp_path / "out").iterdir()) == []


def test_biases_of_query_and_key_go_with_their_rows_in_a_gguf(tmp_path: Path) -> None:
    gguf = pytest.importorskip("gguf")
    heads, width = {"q_proj": 4, "k_proj": 2}, 8
    said = {"model_type": "llama", "hidden_size": 32, "intermediate_size": 8, "num_hidden_layers": 1, "vocab_size": 3}
    said |= {"num_attention_heads": 4, "num_key_value_heads": 2, "rms_norm_eps": 1e-5, "attention_bias": True}
    (tmp_path / "biased").mkdir()
    (tmp_path / "biased" / "config.json").write_text(json.dumps(said))
    tensors: dict[str, Tensor] = {}
    for name, count in heads.items():
        rows = np.arange(count * width, dtype=np.float32)  # each row, and its bias, is its own number
        tensors[f"model.layers.0.self_attn.{name}.weight"] = stored(np.repeat(rows[:, None], 32, 1), "F32")
        tensors[f"model.layers.0.self_attn.{name}.bias"] = stored(rows, "F32")
    write_tensors(tmp_path / "biased" / "model.safetensors", tensors)
    registry = Registry.open(tmp_path / "lake", make=True)
    version = registry.begin("tools", tmp_path / "biased")
    like = tokenizer_of(tmp_path / "like", 3)
    file = export_gguf(registry, version, tmp_path / "x.gguf", base=str(tmp_path / "biased"), dtype="F32", like=like)
    found = {each.name: each.data for each in gguf.GGUFReader(file).tensors}
    for name in ("attn_q", "attn_k"):
        weight, bias = found[f"blk.0.{name}.weight"], found[f"blk.0.{name}.bias"]
        assert list(bias[:4]) == [0, 4, 1, 5] and list(weight[:, 0]) == list(bias)


@given(arrays(np.uint16, array_shapes(max_dims=2, max_side=5)))
def test_bfloat16_survives_its_way_through_float32(bits: np.ndarray) -> None:
    bits = np.where((bits & 0x7F80) == 0x7F80, 0, bits).astype(np.uint16)
    array = (bits.astype(np.uint32) << 16).view(np.float32)
    assert np.array_equal(np.frombuffer(stored(array, "BF16").data, np.uint16).reshape(bits.shape), bits)


@given(st.floats(width=32, allow_nan=False, allow_infinity=False, min_value=-(2.0**99), max_value=2.0**99))
def test_rounding_to_bfloat16_takes_the_nearest_and_the_even_one_of_two(number: float) -> None:
    array = np.array([number], np.float32)
    rounded = values(stored(array, "BF16"))
    below = (array.view(np.uint32) & 0xFFFF0000).view(np.float32)
    above = ((array.view(np.uint32) & 0xFFFF0000) + 0x10000).view(np.float32)
    distance = {float(each): abs(float(each) - number) for each in (below[0], above[0])}
    assert distance[float(rounded[0])] == min(distance.values())
    if len(set(distance.values())) == 1 and len(distance) == 2:
        assert not (rounded.view(np.uint32)[0] >> 16) & 1


def llama(folder: Path, vocabulary: int, **more: object) -> Path:
    """A small random llama with grouped heads."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    shape = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "max_position_embeddings": 128}
    heads = {"num_attention_heads": 8, "num_key_value_heads": 2, "vocab_size": vocabulary}
    LlamaForCausalLM(LlamaConfig(**shape, **heads, **more)).save_pretrained(folder)
    return folder


def tokenizer_of(file: Path, count: int) -> Path:
    """A GGUF with a small tokenizer and nothing else."""
    import gguf

    file.parent.mkdir(exist_ok=True)
    writer = gguf.GGUFWriter(file, "llama")
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list([f"token{number}" for number in range(count)])
    writer.add_token_types([1] * count)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file


def trained(folder: Path, source: Path) -> Path:
    """A LoRA as peft saves it, its B no longer zero."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32)
    targets = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
    peft = get_peft_model(model, LoraConfig(r=4, lora_alpha=8, target_modules=targets, use_rslora=True))
    torch.manual_seed(1)
    with torch.no_grad():
        for name, parameter in peft.named_parameters():
            if "lora_B" in name:
                parameter.normal_(std=0.02)
    peft.save_pretrained(folder)
    return folder


def logits_of(folder: Path, ids: list[list[int]], *, lora: Path | None = None, gguf: str | None = None) -> np.ndarray:
    """Logits in float32, as transformers (and peft) compute them."""
    import torch
    from transformers import AutoModelForCausalLM, GgufConfig

    more = {"gguf_file": gguf, "quantization_config": GgufConfig(dequantize=True)} if gguf else {}
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, **more)
    if lora is not None:
        from peft import PeftModel

        model = PeftModel.from_pretrained(model, lora)
    with torch.inference_mode():
        return model.eval()(input_ids=torch.tensor(ids)).logits.numpy()


@pytest.mark.slow
@pytest.mark.parametrize("tied", [True, False])
def test_what_transformers_loads_of_an_export_says_what_peft_says(tmp_path: Path, tied: bool) -> None:
    for package in ("torch", "transformers", "peft", "gguf"):
        pytest.importorskip(package)
    source = llama(tmp_path / "small", 300, tie_word_embeddings=tied, rope_parameters={"rope_theta": 5000.0})
    registry = Registry.open(tmp_path / "lake", make=True)
    registry.begin("tools", source)
    lora = trained(tmp_path / "lora", source)
    version = registry.register("tools", lora)
    ids = np.random.default_rng(0).integers(0, 300, (2, 40)).tolist()
    wanted = logits_of(source, ids, lora=lora)
    assert np.abs(wanted - logits_of(source, ids)).max() > 0.01, "the adapter changes what is said"

    merged = export_merged(registry, version, tmp_path / "merged", base=str(source))
    np.testing.assert_allclose(logits_of(merged, ids), wanted, atol=1e-5)
    again = logits_of(source, ids, lora=export_adapter(registry, version, tmp_path / "adapter"))
    np.testing.assert_allclose(again, wanted, atol=1e-6)

    like = tokenizer_of(tmp_path / "like", 300)
    for dtype, close in (("F32", 1e-5), ("F16", 5e-3), ("BF16", 3e-2)):
        whole = tmp_path / f"{dtype}.gguf"
        file = export_gguf(registry, version, whole, base=str(source), dtype=dtype, like=like)  # type: ignore[arg-type]
        np.testing.assert_allclose(logits_of(tmp_path, ids, gguf=file.name), wanted, atol=close)
    with pytest.raises(UsageError, match="like has a tokenizer of 299 tokens, small has 300"):
        shorter = tokenizer_of(tmp_path / "shorter" / "like", 299)
        export_gguf(registry, version, tmp_path / "x.gguf", base=str(source), like=shorter)
    assert not (tmp_path / "x.gguf").exists()


@pytest.mark.slow
# That an export says what peft says is seen of a small llama above, and of the bundled one weekly.
@pytest.mark.parametrize("said", [False, pytest.param(True, marks=pytest.mark.weekly)])
def test_the_bundled_model_with_an_adapter_goes_to_gguf_with_its_tokenizer(tmp_path: Path, said: bool) -> None:
    for package in ("torch", "transformers", "peft", "gguf"):
        pytest.importorskip(package)
    from transformers import AutoTokenizer

    from silva.models.bundled import weights_folder
    from silva.models.local.weights import fingerprint

    source = weights_folder()
    registry = Registry.open(tmp_path / "lake", make=True)
    first = registry.begin("tools", source, name="smollm2-135m-instruct")
    assert first.base.label == fingerprint(source), "what the local server calls the base is number 0"
    version = registry.register("tools", trained(tmp_path / "lora", source))
    before = AutoTokenizer.from_pretrained(source)
    dialogue = [{"role": "user", "content": "Name a colour, e.g. naïve ☃ blue."}]
    ids = [before.apply_chat_template(dialogue, add_generation_prompt=True, return_dict=False)]
    file = export_gguf(registry, version, tmp_path / "whole.gguf", dtype="F32")
    if said:
        wanted = logits_of(source, ids, lora=tmp_path / "lora")
        merged = export_merged(registry, version, tmp_path / "merged", dtype="F32")
        np.testing.assert_allclose(logits_of(merged, ids), wanted, atol=2e-3)
        np.testing.assert_allclose(logits_of(tmp_path, ids, gguf=file.name), wanted, atol=2e-3)
    after = AutoTokenizer.from_pretrained(tmp_path, gguf_file=file.name)
    assert [after.apply_chat_template(dialogue, add_generation_prompt=True, return_dict=False)] == ids
    for text in ("  two  spaces\n\ttab", "x = 3.14159; // naïve ☃", "<|im_start|>user"):
        assert after.encode(text) == before.encode(text)

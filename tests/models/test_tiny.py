"""A policy made from nothing: what is written, that any text comes back, that the same words give the same bytes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("tokenizers")
pytest.importorskip("safetensors")

from silva.errors import UsageError
from silva.models.exact import Renderer, open_renderer
from silva.models.local.checkpoint import read_architecture, weight_files
from silva.models.tiny import Shape, write_tiny
from silva.tree import Tool, assistant, call, system, tool_result, user

ACT = Tool(name="act", description="Act.", parameters={"type": "object"})
SMALL = Shape(vocabulary=400, width=32, inner=48, layers=2, heads=4, key_heads=2, context=256)
SEEN = "You see: green ball 3 steps left; wall 12 steps forward."
HEARD = [
    ((system("Rules."), user(f"Mission: go {n}\n{SEEN}"), assistant("", call("act", {"action": "left"}))), (ACT,))
    for n in range(8)
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("models") / "tiny"
    write_tiny(place, HEARD, SMALL, seed=3)
    return place


@pytest.fixture(scope="module")
def renderer(folder: Path) -> Renderer:
    return open_renderer(folder)


def test_it_is_a_folder_of_a_llama(folder: Path) -> None:
    shape = read_architecture(folder)
    assert (shape.width, shape.depth, shape.size, shape.context, shape.tied) == (32, 2, 8, 256, True)
    assert weight_files(folder) == [folder / "model.safetensors"]
    from safetensors.numpy import load_file

    weights = load_file(folder / "model.safetensors")
    assert {name: tensor.shape for name, tensor in weights.items()} == shape.shapes()
    assert sum(tensor.size for tensor in weights.values()) == shape.parameters
    assert 0.018 < weights["model.embed_tokens.weight"].std() < 0.022
    default = Shape().architecture("tiny", 1024, 0)
    assert 1_000_000 < default.parameters < 3_000_000


def test_the_same_words_and_seed_give_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    write_tiny(tmp_path / "tiny", HEARD[::-1], SMALL, seed=3)
    for file in sorted(folder.iterdir()):
        assert (tmp_path / "tiny" / file.name).read_bytes() == file.read_bytes(), file.name
    write_tiny(tmp_path / "other", HEARD, SMALL, seed=4)
    weights = "model.safetensors"
    assert (tmp_path / "other" / weights).read_bytes() != (folder / weights).read_bytes()


@settings(max_examples=50, deadline=None)
@given(text=st.text(max_size=60))
def test_any_text_can_be_written(renderer: Renderer, text: str) -> None:
    ids = renderer.render((user(text), assistant("x")), generation_prompt=False)
    assert renderer.text(ids) == f"<|user|>{text}<|end|><|assistant|>x<|end|>"


def test_rules_are_left_out_and_what_the_environment_says_costs_little(renderer: Renderer) -> None:
    ids = renderer.render((system("Rules."), user(SEEN)), (ACT,))
    assert renderer.text(ids) == f"<|user|>{SEEN}<|end|><|assistant|>"
    assert len(ids) < len(SEEN) / 2
    (end,) = renderer.stop_ids
    assert renderer.text((end,)) == "<|end|>"


def test_calls_are_written_and_read(renderer: Renderer) -> None:
    made = assistant("", call("act", {"action": "left"}))
    head = renderer.render((user("Go."),), (ACT,))
    whole = renderer.render((user("Go."), made), (ACT,), generation_prompt=False)
    assert whole[: len(head)] == head
    said = renderer.parse(whole[len(head) :], (ACT,))
    assert said.ended and [(c.name, c.parsed()) for c in said.message.tool_calls] == [("act", {"action": "left"})]
    answered = renderer.extend(whole, (user("Go."), said.message), (tool_result("1", SEEN, "act"),), (ACT,))
    assert renderer.text(answered.ids).startswith("<|user|><tool_response>\nYou see")  # type: ignore[union-attr]


def test_nothing_that_is_there_is_overwritten_and_words_are_needed(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="it holds something already"):
        write_tiny(folder, HEARD, SMALL)
    with pytest.raises(UsageError, match="there is none"):
        write_tiny(tmp_path / "none", [], SMALL)
    assert not (tmp_path / "none").exists()
    (tmp_path / "file").write_text("mine")
    with pytest.raises(UsageError, match="it holds something already"):
        write_tiny(tmp_path / "file", HEARD, SMALL)
    with pytest.raises(UsageError, match="cannot be written"):
        write_tiny(tmp_path / "file" / "tiny", HEARD, SMALL)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"model_type": "qwen2"}, "of type qwen2, only llama"),
        ({"attention_bias": True}, "attention_bias is not computed"),
        ({"hidden_act": "gelu"}, "hidden_act gelu"),
        ({"quantization_config": {"bits": 4}}, "quantised"),
        ({"hidden_size": None}, "wrong kind"),
        ({"rope_parameters": {"rope_type": "dynamic"}}, "rope_type dynamic"),
    ],
)
def test_a_network_that_is_not_computed_here_is_refused(
    folder: Path, tmp_path: Path, change: dict[str, object], words: str
) -> None:
    config = json.loads((folder / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, **change}))
    with pytest.raises(UsageError, match=words):
        read_architecture(tmp_path)


def test_a_folder_that_is_no_model_is_named(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no such folder"):
        read_architecture(tmp_path / "none")
    with pytest.raises(UsageError, match=r"config\.json is missing"):
        read_architecture(tmp_path)
    with pytest.raises(UsageError, match=r"model\.safetensors is missing"):
        weight_files(tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(UsageError, match="it is not JSON"):
        read_architecture(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    with pytest.raises(UsageError, match=r"config\.json does not say num_attention_heads"):
        read_architecture(tmp_path)
    (tmp_path / "model.safetensors.index.json").write_text('{"weight_map": {"a": "part-1.safetensors"}}')
    with pytest.raises(UsageError, match=r"part-1.safetensors, which .* names, is missing"):
        weight_files(tmp_path)


def test_the_settings_of_earlier_versions_are_read(folder: Path, tmp_path: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    for name in ("rope_parameters", "head_dim", "num_key_value_heads"):
        del config[name]
    config |= {"rope_theta": 500000.0, "rope_scaling": {"type": "linear", "factor": 2.0}, "eos_token_id": [0, 5]}
    (tmp_path / "config.json").write_text(json.dumps(config))
    shape = read_architecture(tmp_path)
    assert shape.rope == {"rope_theta": 500000.0, "rope_type": "linear", "factor": 2.0}
    assert (shape.size, shape.key_heads, shape.ends) == (8, 4, frozenset({0, 5}))

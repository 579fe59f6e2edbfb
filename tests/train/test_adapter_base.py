"""Which base an adapter is of: by its digest, by the folder it names, by name; in trainer and registry alike."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file
from tiny_llama import sample, weights_folder

from silva.errors import UsageError
from silva.train.config import PolicyConfig, TeacherConfig

pytestmark = pytest.mark.slow

pytest.importorskip("torch")
pytest.importorskip("peft")

WEIGHTS, CONFIG = "adapter_model.safetensors", "adapter_config.json"
DIGESTS = r"it was trained on base \([0-9a-f]{{12}}\), {}"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two bases of one name and shape, and an adapter of the first."""
    from silva.train.algorithms import algorithm

    home = tmp_path_factory.mktemp("home")
    weights_folder(home / "one" / "base")
    weights_folder(home / "two" / "base", seed=1)
    engine = engine_on(home / "one" / "base")
    engine.forward_backward([sample(np.random.default_rng(0)) for _ in range(4)], algorithm("sft"))
    engine.optim_step(5e-3)
    engine.save_weights_for_sampler(home / "adapter")
    engine.close()
    return home


def engine_on(base: Path, start: Path | None = None, **more: object):
    from silva.train.engines.local import LocalEngine

    policy = {"weights": str(base), "start": start, "dtype": "float32", "adapter": {"rank": 4}}
    return LocalEngine(PolicyConfig.model_validate(policy), **more)  # pyright: ignore[reportArgumentType]


def without_record(adapter: Path, folder: Path, base: str) -> Path:
    """The adapter as another trainer would have written it: `base` in its config, no digest in its weights."""
    folder.mkdir()
    save_file(load_file(adapter / WEIGHTS), folder / WEIGHTS)
    config = json.loads((adapter / CONFIG).read_text())
    (folder / CONFIG).write_text(json.dumps(config | {"base_model_name_or_path": base}))
    return folder


def test_a_base_of_the_same_name_and_shape_is_told_apart_by_its_digest(home: Path):
    from silva.train.engines.weights import weights_digest

    with safe_open(home / "adapter" / WEIGHTS, "np") as opened:
        assert opened.metadata()["base_digest"] == weights_digest(home / "one" / "base")
    with pytest.raises(UsageError, match=DIGESTS.format("the policy's weights are base")) as refused:
        engine_on(home / "two" / "base", home / "adapter")
    assert "\n" not in str(refused.value)
    teacher = TeacherConfig(weights=str(home / "two" / "base"), adapter=home / "adapter")
    with pytest.raises(UsageError, match=DIGESTS.format("the policy's weights are base")):
        engine_on(home / "one" / "base", teacher=teacher)


def test_the_same_weights_in_a_folder_of_another_name_are_the_base(home: Path, tmp_path: Path):
    shutil.copytree(home / "one" / "base", tmp_path / "renamed")
    engine = engine_on(tmp_path / "renamed", home / "adapter")
    again = load_file(engine.save_weights_for_sampler(tmp_path / "again") / WEIGHTS)
    engine.close()
    for name, values in load_file(home / "adapter" / WEIGHTS).items():
        np.testing.assert_array_equal(values, again[name])


def test_without_a_digest_the_folder_it_names_decides_and_else_the_name(home: Path, tmp_path: Path):
    seen = without_record(home / "adapter", tmp_path / "seen", str(home / "one" / "base"))
    named = without_record(home / "adapter", tmp_path / "named", "org/base")
    engine_on(home / "one" / "base", seen).close()
    with pytest.raises(UsageError, match=DIGESTS.format("the policy's weights are base")):
        engine_on(home / "two" / "base", seen)
    engine_on(home / "two" / "base", named).close()  # nothing tells them apart
    shutil.copytree(home / "one" / "base", tmp_path / "other")
    with pytest.raises(UsageError, match="it was trained on base, the policy's weights are other"):
        engine_on(tmp_path / "other", named)


def test_the_registry_reads_the_same_record_and_its_copy_is_trained_further(home: Path, tmp_path: Path):
    from silva.train.registry import Registry
    from silva.train.registry.materialise import materialise

    registry = Registry.open(tmp_path / "lake", make=True)
    registry.begin("mine", home / "one" / "base")
    registry.begin("other", home / "two" / "base")
    with pytest.raises(UsageError, match=DIGESTS.format("the line grows from base@")):
        registry.register("other", home / "adapter")
    copy = materialise(registry, registry.register("mine", home / "adapter", key="one"), tmp_path / "copies")
    first, second = engine_on(home / "one" / "base", home / "adapter"), engine_on(home / "one" / "base", copy)
    asked = [sample(np.random.default_rng(1)) for _ in range(3)]
    for mine, theirs in zip(second.logprobs(asked), first.logprobs(asked), strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-6)
    with pytest.raises(UsageError, match=DIGESTS.format("the policy's weights are base")):
        engine_on(home / "two" / "base", copy)
    for engine in (first, second):
        engine.close()


@pytest.mark.parametrize(
    ("said", "base", "fits"),
    [
        ("smollm2-135m-instruct", "smollm2-135m-instruct-252f0f0e4dae", True),
        ("HuggingFaceTB/SmolLM2-135M-Instruct", "smollm2-135m-instruct-252f0f0e4dae", True),
        ("smollm2-135m-instruct-252f0f0e4dae", "smollm2-135m-instruct", True),
        ("smollm2-135m-instruct-0123456789ab", "smollm2-135m-instruct-252f0f0e4dae", False),
        ("smollm2-135m-instruct", "smollm2-135m-instruct-tuned", False),
        ("smollm2-135m", "smollm2-135m-instruct-252f0f0e4dae", False),
    ],
)
def test_an_adapter_of_the_bundled_model_may_name_it_either_way(said: str, base: str, fits: bool, tmp_path: Path):
    from silva.train.engines.adapters import read_shape

    config = {"peft_type": "LORA", "r": 4, "lora_alpha": 8, "target_modules": ["q_proj"]}
    (tmp_path / CONFIG).write_text(json.dumps(config | {"base_model_name_or_path": said}))
    if fits:
        assert read_shape(tmp_path, tmp_path / base).rank == 4
    else:
        with pytest.raises(UsageError, match="it was trained on"):
            read_shape(tmp_path, tmp_path / base)


def test_the_same_adapter_is_written_as_the_same_bytes(tmp_path: Path):
    import torch

    from silva.train.engines.tensor_file import write_tensors

    tensors = {"größe": torch.ones(2, 3), "a": torch.zeros(4)}
    for count in range(20):
        write_tensors(tensors, tmp_path / str(count), {"base_digest": "5e1f", "more": "words"})
    assert len({(tmp_path / str(count)).read_bytes() for count in range(20)}) == 1
    with safe_open(tmp_path / "0", "pt") as opened:
        assert opened.metadata() == {"base_digest": "5e1f", "format": "pt", "more": "words"}
        assert opened.get_tensor("größe").tolist() == [[1.0] * 3] * 2

"""TRL as the referee of whole runs: the same data, seed and optimiser give the same losses and the same adapter."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny_llama import group, pair, sample, weights_folder

from silva.errors import UsageError
from silva.train.config import TrainConfig
from silva.train.curves import Point, read_curve
from silva.train.sample import Sample
from silva.train.sample_file import write_samples

pytestmark = pytest.mark.slow

pytest.importorskip("torch")
pytest.importorskip("peft")
pytest.importorskip("trl")

STEPS = 4


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return weights_folder(tmp_path_factory.mktemp("weights") / "base")


def evenly(samples: list[Sample]) -> list[Sample]:
    """With weight 1 everywhere: TRL has no others."""
    return [replace(each, weights=np.ones(len(each), np.float32)) for each in samples]


def run(base: Path, output: Path, engine: str, samples: list[Sample], **more: Any) -> list[Point]:
    from silva.train.launch import train

    output.mkdir()
    write_samples(output / "data.samples", samples)
    values: dict[str, Any] = {
        "output": str(output / "out"),
        "engine": engine,
        "policy": {"weights": str(base), "dtype": "float32", "adapter": {"rank": 4}},
        "data": {"files": [str(output / "data.samples")], "shuffle": False, "pairs": "alternating"},
        "optimiser": {"learning_rate": 5e-3},
        "steps": STEPS,
        "threads": 1,
    }
    result = train(TrainConfig.model_validate(values | more))
    assert result.status == "finished" and result.step == STEPS
    return [point for point in read_curve(output / "out") if "loss" in point.values]


def adapter(folder: Path) -> dict[str, np.ndarray]:
    from safetensors.numpy import load_file

    return load_file(folder / "out" / "policy" / "adapter_model.safetensors")


def same_adapter(mine: Path, theirs: Path, within: float) -> None:
    ours, trls = adapter(mine), adapter(theirs)
    assert set(ours) == set(trls)
    for name, values in ours.items():
        np.testing.assert_allclose(values, trls[name], atol=within, err_msg=name)
        assert np.abs(values).max() > 20 * within


def test_sft_is_trls(base: Path, tmp_path: Path):
    generator = np.random.default_rng(0)
    samples = evenly([sample(generator) for _ in range(6)])
    mine = run(base, tmp_path / "local", "local", samples, batch=6, micro_tokens=40)
    theirs = run(base, tmp_path / "trl", "trl", samples, batch=6)
    assert len(mine) == len(theirs) == STEPS
    for ours, trls in zip(mine, theirs, strict=True):
        assert ours.values["loss"] == pytest.approx(trls.values["loss"], rel=1e-3)
        assert ours.values["gradient_norm"] == pytest.approx(trls.values["grad_norm"], rel=1e-3)
    same_adapter(tmp_path / "local", tmp_path / "trl", 5e-4)


def test_dpo_is_trls(base: Path, tmp_path: Path):
    generator = np.random.default_rng(1)
    samples = evenly([side for _ in range(5) for side in pair(generator)])
    more = {"algorithm": {"name": "dpo", "parameters": {"beta": 0.3}}, "batch": 5}
    mine = run(base, tmp_path / "local", "local", samples, **more, micro_tokens=60)
    theirs = run(base, tmp_path / "trl", "trl", samples, **more)
    for ours, trls in zip(mine, theirs, strict=True):
        assert ours.values["loss"] == pytest.approx(trls.values["loss"], rel=2e-3)
    same_adapter(tmp_path / "local", tmp_path / "trl", 5e-4)


def test_grpo_is_trls_where_the_samples_are_on_policy(base: Path, tmp_path: Path):
    from silva.train.config import PolicyConfig
    from silva.train.engines.local import LocalEngine

    generator = np.random.default_rng(2)
    members = [each for task in range(3) for each in group(generator, f"t{task}")]
    members = [replace(each, mask=each.drawn.copy()) for each in evenly(members)]
    engine = LocalEngine(PolicyConfig(weights=str(base), dtype="float32"))
    own = engine.logprobs(members)  # the ratio of the first step is 1 on both sides
    for each, values in zip(members, own, strict=True):
        each.logprobs[each.mask] = values
    more: dict[str, Any] = {"algorithm": {"name": "grpo"}, "batch": 3}
    mine = run(base, tmp_path / "local", "local", members, **more)
    theirs = run(base, tmp_path / "trl", "trl", members, **more)
    assert mine[0].values["gradient_norm"] == pytest.approx(theirs[0].values["grad_norm"], rel=2e-3)


def test_what_trl_has_not_is_refused_by_name(base: Path, tmp_path: Path):
    generator = np.random.default_rng(3)
    samples = evenly([sample(generator) for _ in range(4)])
    for number, (more, said) in enumerate(
        [
            ({"algorithm": {"name": "opd"}}, "not opd"),
            ({"algorithm": {"parameters": {"normalise": "sequence"}}}, "normalise: sequence"),
            ({"optimiser": {"floor": 0.5}}, "optimiser.floor"),
        ]
    ):
        with pytest.raises(UsageError, match=said):
            run(base, tmp_path / str(number), "trl", samples, **more)

"""TRL's asynchronous trainer inside an online run: real runs with a tiny policy on the processor; its numbers against
Silva's own engine; what it cannot do, said in one line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_llama
import trl_async_parts as parts
import yaml

from silva.errors import MissingError, SilvaError, UsageError
from silva.lake import Lake
from silva.train.sample import Sample, SampleError
from silva.tree import Author

pytestmark = pytest.mark.slow

pytest.importorskip("torch")
pytest.importorskip("peft")
pytest.importorskip("trl")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return parts.home(tmp_path_factory.mktemp("online"))


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_llama.weights_folder(tmp_path_factory.mktemp("weights") / "base")


def written(home: Path, output: Path, **fields: Any) -> Path:
    file = output.with_suffix(".yaml")
    file.write_text(yaml.safe_dump(parts.settings(home, output, **fields)))
    return file


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, Any]]:
    from typer.main import get_command

    from silva.cli.train_online import app

    code = get_command(app).main([*words, "--json"], standalone_mode=False)
    return int(code or 0), json.loads(capsys.readouterr().out)


os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")


def drawn_by(folder: Path, run: str) -> dict[str, int]:
    """How many turns each version drew."""
    with Lake.open(folder / "lake", "read") as lake:
        found = [node.policy_version for node in lake.nodes(run_id=run) if node.author is Author.POLICY]
    return {version.partition("@")[0]: found.count(version) for version in found}


@pytest.fixture
def packed(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Every sample that TRL packed into a row, as TRL had it."""
    from trl.experimental.async_grpo.packing import TreeRow

    found: list[dict[str, Any]] = []
    add = TreeRow.add

    def noted(row: Any, sample: dict[str, Any]) -> None:
        found.append(sample)
        add(row, sample)

    monkeypatch.setattr(TreeRow, "add", noted)
    return found


@pytest.mark.parametrize(
    ("mode", "method"), [("async", "lora"), pytest.param("sync", "full", marks=pytest.mark.weekly)]
)
def test_trl_trains_what_the_tree_holds_and_its_weights_are_served(
    home: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    packed: list[dict[str, Any]],
    mode: str,
    method: str,
):
    policy = {"weights": str(home / "tiny"), "method": method, "dtype": "float32"}
    code, said = run(capsys, str(written(home, tmp_path / "trl", policy=policy, mode=mode)))
    assert (code, said["status"], said["step"]) == (0, "finished", 4)
    assert sum(said["staleness"].values()) == 8
    assert set(said["staleness"]) <= ({"0"} if mode == "sync" else {"0", "1"})

    # the versions that drew are those that were trained, one after the other
    drawn = drawn_by(tmp_path, "trl")
    assert set(drawn) >= {"tiny", "trl-1"} and set(drawn) <= {"tiny", "trl-1", "trl-2", "trl-3", "trl-4"}

    # what TRL packed are the ids and log-probabilities of the nodes
    with Lake.open(tmp_path / "lake", "read") as lake:
        walks = [lake.walk(each) for each in lake.trajectories(run_id="trl")]
    known: dict[tuple[int, ...], list[list[float]]] = {}
    for walk in walks:
        tokens = [node.tokens for node in walk if node.author is Author.POLICY and node.tokens is not None]
        ids = tuple(number for each in tokens for number in each.ids)
        known.setdefault(ids, []).append([value for each in tokens for value in each.logprobs])
    assert len(packed) >= 4 * 2 * 2
    for sample in packed:
        drawn = sample["old_log_probs"][sample["completion_mask"].astype(bool)]
        there = known[tuple(sample["input_ids"].tolist())]
        assert any(np.allclose(drawn, each, atol=1e-6) for each in there)

    curve = [json.loads(line) for line in (tmp_path / "trl" / "curves.jsonl").read_text().splitlines()]
    assert [point["step"] for point in curve] == [1, 2, 3, 4]
    assert curve[0]["ratio"] == pytest.approx(1.0, abs=1e-3)  # served and trained agree on what was drawn
    assert all(np.isfinite(point["loss"]) and point["gradient_norm"] > 0 for point in curve)
    names = {path.name for path in (tmp_path / "trl" / "policy").iterdir()}
    assert ("adapter_model.safetensors" if method == "lora" else "model.safetensors") in names
    checkpoint = tmp_path / "trl" / "trl" / "checkpoint-4"
    told = [path for path in checkpoint.iterdir() if path.suffix in (".json", ".md") and path.name != "silva.json"]
    assert told and not any(str(home) in path.read_text() for path in told)


def test_a_killed_run_goes_on_where_its_checkpoint_is(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = written(home, tmp_path / "killed", steps=5)
    command = [sys.executable, "-m", "silva", "train", "online", str(file)]
    process = subprocess.Popen(command, env=dict(os.environ), stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    mark = tmp_path / "killed" / "trl" / "checkpoint-2" / "silva.json"
    until = time.monotonic() + 240
    while not mark.is_file() and process.poll() is None and time.monotonic() < until:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait(30)
    assert mark.is_file()
    code, said = run(capsys, str(file), "--resume")
    assert (code, said["status"], said["step"]) == (0, "finished", 5)
    steps = [json.loads(line)["step"] for line in (tmp_path / "killed" / "curves.jsonl").read_text().splitlines()]
    assert steps == [1, 2, 3, 4, 5]
    with Lake.open(tmp_path / "lake", "read") as lake:
        grown = [(each.task_id, each.index) for each in lake.trajectories(run_id="killed")]
    assert len(set(grown)) == len(grown)


def test_vllm_of_the_runs_own_is_given_each_adapter(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], packed: list[dict[str, Any]]
):
    """Silva's own server stands in vLLM's place, under vLLM's command line and routes."""
    serve = {"engine": "vllm", "python": str(parts.in_vllms_place(tmp_path)), "devices": "0"}
    code, said = run(capsys, str(written(home, tmp_path / "gpu", serve=serve)))
    assert (code, said["status"]) == (0, "finished")
    drawn = drawn_by(tmp_path, "gpu")
    assert set(drawn) >= {"tiny", "gpu-1"} and packed
    first = json.loads((tmp_path / "gpu" / "curves.jsonl").read_text().splitlines()[0])
    assert first["ratio"] == pytest.approx(1.0, abs=1e-3)


@pytest.mark.skipif(not parts.gpu_and_vllm(), reason="on a GPU, with vLLM's interpreter in $SILVA_VLLM_PYTHON")
def test_vllm_itself_draws_what_trl_trains_on_a_gpu(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], packed: list[dict[str, Any]]
):
    import torch

    home = parts.home(tmp_path, parts.WIDER)
    devices = "1" if torch.cuda.device_count() > 1 else "0"
    serve = {"engine": "vllm", "python": os.environ.get(parts.VLLM_PYTHON, ""), "devices": devices, "rows": 8}
    policy = {"weights": str(home / "tiny"), "method": "lora", "adapter": {"rank": 8}}
    code, said = run(capsys, str(written(home, tmp_path / "gpu", serve=serve, policy=policy)))
    assert (code, said["status"], said["step"]) == (0, "finished", 4)
    assert set(drawn_by(tmp_path, "gpu")) >= {"tiny", "gpu-1"} and packed
    curve = [json.loads(line) for line in (tmp_path / "gpu" / "curves.jsonl").read_text().splitlines()]
    assert curve[0]["ratio"] == pytest.approx(1.0, abs=5e-2)  # both in bfloat16, by other kernels
    assert all(np.isfinite(point["loss"]) for point in curve)


def scored(seed: int, tasks: int = 2) -> list[list[Sample]]:
    """Groups with advantages, drawn by nobody in particular."""
    from silva.train.algorithms import algorithm

    generator = np.random.default_rng(seed)
    grpo: Any = algorithm("grpo", {})
    found = []
    for task in range(tasks):
        group = tiny_llama.group(generator, f"t{task}")
        group = [replace(each, mask=each.drawn.copy(), weights=np.ones(len(each), np.float32)) for each in group]
        found.append(grpo.score(group))
    return found


def trained(base: Path, output: Path, groups: list[list[Sample]], **fields: Any) -> tuple[Any, Any, Any]:
    from silva.train.algorithms import algorithm
    from silva.train.online.trl_async.engine import TrlEngine
    from silva.train.online.trl_async.training import TrlTraining

    config = parts.configured(base, output, **fields)
    engine = TrlEngine(config, algorithm("grpo", config.parameters()))
    source: Any = parts.Handed(groups)
    training = TrlTraining(config, engine, source)
    return engine, source, training.run(lambda: False, lambda: None)


@pytest.mark.parametrize("micro_tokens", [4096, 40])
def test_its_numbers_are_those_of_silvas_engine(base: Path, tmp_path: Path, micro_tokens: int):
    """The same samples, off-policy: loss, gradient and weights after the steps are the same, in one piece or many."""
    from silva.train.algorithms import algorithm
    from silva.train.config import OptimiserConfig, PolicyConfig
    from silva.train.engines.local import LocalEngine

    groups = scored(0) + scored(1)
    rate = 1e-3
    mine = LocalEngine(
        PolicyConfig(weights=str(base), method="full", dtype="float32"), OptimiserConfig(learning_rate=rate)
    )
    for group in groups:  # near the policy, so that some ratios are clipped and some are not
        for each, values in zip(group, mine.logprobs(group), strict=True):
            noise = np.random.default_rng(len(each)).normal(0, 0.3, len(values))
            each.logprobs[each.mask] = np.minimum(values + noise, -1e-3)
    grpo = algorithm("grpo", {})
    losses = []
    for step in (0, 2):
        result = mine.forward_backward([each for group in groups[step : step + 2] for each in group], grpo)
        losses.append((result.loss, mine.optim_step(rate).gradient_norm))
    engine, source, result = trained(base, tmp_path, groups, micro_tokens=micro_tokens)
    assert (result.status, result.step, source.handed) == ("finished", 2, [0, 2, 4])
    history = [entry for entry in engine.trainer.state.log_history if "loss" in entry]
    for (loss, norm), entry in zip(losses, history, strict=True):
        assert entry["loss"] == pytest.approx(loss, rel=1e-3, abs=1e-5)
        assert entry["grad_norm"] == pytest.approx(norm, rel=1e-3)
    theirs = dict(engine.trainer.model.named_parameters())
    for name, value in mine.as_module().named_parameters():
        np.testing.assert_allclose(theirs[name].detach().numpy(), value.detach().numpy(), atol=2e-5, err_msg=name)


def test_a_run_that_is_stopped_ends_with_a_checkpoint_and_goes_on_with_the_same_numbers(base: Path, tmp_path: Path):
    from silva.train.algorithms import algorithm
    from silva.train.online.trl_async.engine import TrlEngine
    from silva.train.online.trl_async.training import TrlTraining

    groups = scored(7, 6)
    policy = {"weights": str(base), "method": "lora", "adapter": {"rank": 4}, "dtype": "float32"}
    fields: dict[str, Any] = {"steps": 3, "policy": policy, "checkpoints": {"every": 100}}
    whole, _, result = trained(base, tmp_path / "whole", groups, **fields)
    assert result.status == "finished"

    config = parts.configured(base, tmp_path / "stopped", **fields)
    grpo = algorithm("grpo", config.parameters())
    engine = TrlEngine(config, grpo)
    first: Any = parts.Handed(groups)
    result = TrlTraining(config, engine, first).run(lambda: engine.step >= 1, lambda: None)
    assert (result.status, result.step, first.handed) == ("interrupted", 1, [0, 2])
    assert result.checkpoint is not None and result.checkpoint.name == "checkpoint-1"

    engine = TrlEngine(config, grpo)
    second: Any = parts.Handed(groups)
    training = TrlTraining(config, engine, second)
    assert (training.resume(), second.position) == (1, 2)
    assert training.run(lambda: False, lambda: None).status == "finished"
    for one, other in zip(whole.trainer.model.parameters(), engine.trainer.model.parameters(), strict=True):
        np.testing.assert_allclose(one.detach().numpy(), other.detach().numpy(), atol=1e-7)

    other = parts.configured(base, tmp_path / "stopped", **fields, seed=1)
    with pytest.raises(UsageError, match="checkpoint-3: seed was another"):
        TrlTraining(other, engine, second).resume()


def test_it_goes_on_from_an_adapter(base: Path, tmp_path: Path):
    from safetensors.numpy import load_file

    policy = {"weights": str(base), "method": "lora", "adapter": {"rank": 4}, "dtype": "float32"}
    _, _, result = trained(base, tmp_path / "first", scored(8, 4), policy=policy)
    start = {"weights": str(base), "method": "lora", "start": str(result.policy), "dtype": "float32"}
    engine, _, _ = trained(base, tmp_path / "second", [], policy=start)
    again = load_file(engine.save_weights_for_sampler(tmp_path / "again") / "adapter_model.safetensors")
    for name, values in load_file(result.policy / "adapter_model.safetensors").items():
        np.testing.assert_array_equal(values, again[name])


def test_weights_that_are_no_numbers_are_never_published(base: Path, tmp_path: Path):
    _, source, result = trained(
        base, tmp_path, scored(2, 8), steps=4, optimiser={"learning_rate": 1e30, "clip": None, "weight_decay": 1e10}
    )
    assert result.status == "diverged" and result.reason and result.policy is None
    assert len(source.handed) <= 2  # aligned, and at most the step before


def test_a_trainer_that_dies_says_so_in_one_line(base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    import torch

    def refuses(*_: Any, **__: Any) -> None:
        raise RuntimeError("CUDA out of memory.\nTried to allocate 20.00 GiB")

    monkeypatch.setattr(torch.optim.AdamW, "step", refuses)
    with pytest.raises(SilvaError, match=r"ended after step 0 .RuntimeError: CUDA out of memory.*--resume") as caught:
        trained(base, tmp_path, scored(3))
    assert "\n" not in str(caught.value) and int(caught.value.code) == 6


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"logprobs": "nan"}, "no log-probabilities"),
        ({"weights": "half"}, "weights other than 0 and 1"),
        ({"advantages": "uneven"}, "differ by position"),
    ],
)
def test_a_sample_that_trl_cannot_hold_is_named(base: Path, tmp_path: Path, change: dict[str, str], said: str):
    groups = scored(4)
    sample = groups[0][0]
    place = int(np.flatnonzero(sample.mask)[0])
    for name, how in change.items():
        getattr(sample, name)[place] = {"nan": np.nan, "half": 0.5, "uneven": 9.0}[how]
    with pytest.raises(SampleError, match=said):
        trained(base, tmp_path, groups)


def test_a_sample_longer_than_the_context_is_named(base: Path, tmp_path: Path):
    policy = {"weights": str(base), "method": "full", "dtype": "float32", "context": 4}
    with pytest.raises(SampleError, match="the policy's context holds 4"):
        trained(base, tmp_path, scored(5), policy=policy)


def test_the_kernel_for_hopper_is_refused_where_there_is_none(base: Path, tmp_path: Path):
    with pytest.raises(UsageError, match=r"trl.attention: fa3"):
        trained(base, tmp_path, scored(6), trl={"attention": "fa3"})


def test_a_trl_without_asynchronous_grpo_is_refused(monkeypatch: pytest.MonkeyPatch):
    import importlib.util

    from silva.train.online.trl_async import settings

    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name.endswith("async_grpo") else real(name, *more)
    )
    with pytest.raises(MissingError, match=r"written for trl 1.16.*silva\[trl\]"):
        settings.require_trl()

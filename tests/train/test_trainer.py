"""Whole training runs on a tiny llama: curves, kills, divergence, a full disk, and the command."""

from __future__ import annotations

import io
import json
import resource
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from tiny_llama import WORDS, group, pair, sample, weights_folder

from silva.errors import Exit, SilvaError, UsageError
from silva.lake import Lake
from silva.train.config import TrainConfig
from silva.train.curves import read_curve
from silva.train.sample import SampleError
from silva.train.sample_file import write_samples

pytestmark = pytest.mark.slow

pytest.importorskip("torch")
pytest.importorskip("peft")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("home")
    weights_folder(home / "base")
    generator = np.random.default_rng(0)
    write_samples(home / "sft.samples", [sample(generator) for _ in range(16)])
    write_samples(home / "held.samples", [sample(generator) for _ in range(3)])
    write_samples(home / "dpo.samples", [side for _ in range(6) for side in pair(generator)])
    attempts = [member for task in range(6) for member in group(generator, f"t{task}")]
    alike = [sample(generator, task="alike", index=index, reward=1.0) for index in range(4)]
    write_samples(home / "grpo.samples", attempts + alike)
    return home


def config(home: Path, output: Path, **more: Any) -> TrainConfig:
    values: dict[str, Any] = {
        "run": "tiny",
        "output": str(output),
        "policy": {"weights": str(home / "base"), "dtype": "float32", "adapter": {"rank": 4, "dropout": 0.1}},
        "data": {"files": [str(home / "sft.samples")], "held_out": [str(home / "held.samples")]},
        "optimiser": {"learning_rate": 1e-2, "warmup": 2, "schedule": "cosine"},
        "steps": 12,
        "batch": 4,
        "held_out_every": 4,
        "checkpoints": {"every": 4},
        "threads": 1,
    }
    return TrainConfig.model_validate(values | more)


def train(settings: TrainConfig, **said: Any):
    from silva.train.launch import train

    return train(settings, **said)


def losses(output: Path) -> list[tuple[int, float]]:
    return [(point.step, point.values["loss"]) for point in read_curve(output) if "loss" in point.values]


@pytest.fixture(scope="module")
def undisturbed(home: Path) -> list[tuple[int, float]]:
    output = home / "undisturbed"
    result = train(config(home, output))
    assert result.status == "finished" and result.step == 12
    return losses(output)


def test_a_run_learns_and_leaves_a_policy_curves_and_checkpoints(home: Path, undisturbed: list[tuple[int, float]]):
    output = home / "undisturbed"
    assert [step for step, _ in undisturbed] == list(range(1, 13))
    assert undisturbed[-1][1] < undisturbed[0][1] - 0.5
    measured = [point.step for point in read_curve(output) if "held_out_loss" in point.values]
    assert measured == [0, 4, 8, 12]
    assert sorted(path.name for path in (output / "checkpoints").iterdir()) == ["step-000008", "step-000012"]
    assert sorted(path.name for path in (output / "policy").iterdir()) == [
        "adapter_config.json",
        "adapter_model.safetensors",
    ]
    last = output / "checkpoints" / "step-000012" / "weights" / "adapter_model.safetensors"
    assert last.read_bytes() == (output / "policy" / "adapter_model.safetensors").read_bytes()


@pytest.mark.parametrize(("name", "file"), [("dpo", "dpo.samples"), ("grpo", "grpo.samples")])
def test_pairs_and_groups_train_by_the_same_config(home: Path, tmp_path: Path, name: str, file: str):
    data: dict[str, Any] = {"files": [str(home / file)], "pairs": "alternating"}
    settings = config(home, tmp_path / "out", data=data, algorithm={"name": name}, batch=2, steps=20)
    assert train(settings).status == "finished"
    first, last = (point.values for point in (read_curve(tmp_path / "out")[0], read_curve(tmp_path / "out")[-1]))
    if name == "dpo":
        assert first["loss"] == pytest.approx(np.log(2), abs=1e-5)
        assert last["margin"] > 0 and last["loss"] < 0.6
    else:
        assert last["loss"] < first["loss"]


def test_data_of_which_nothing_can_be_used_is_refused(home: Path, tmp_path: Path):
    generator = np.random.default_rng(3)
    write_samples(tmp_path / "alike", [sample(generator, task="t", index=i, reward=1.0) for i in range(4)])
    settings = config(home, tmp_path / "out", data={"files": [str(tmp_path / "alike")]}, algorithm={"name": "grpo"})
    with pytest.raises(UsageError, match="1 groups with rewards all alike"):
        train(settings)
    assert not (tmp_path / "out" / "config.yaml").exists()


@pytest.mark.parametrize("engine", ["local", "trl"])
def test_a_sample_too_long_for_the_policy_is_named_and_the_others_train(home: Path, tmp_path: Path, engine: str):
    if engine == "trl":
        pytest.importorskip("trl")
    generator = np.random.default_rng(4)
    short = [sample(generator) for _ in range(8)]
    evenly = [replace(each, weights=np.ones(len(each), np.float32)) for each in (*short, sample(generator, 200))]
    write_samples(tmp_path / "long.samples", evenly)
    data = {"files": [str(tmp_path / "long.samples")], "shuffle": False}
    settings = config(home, tmp_path / "out", data=data, engine=engine, steps=4)
    told = io.StringIO()
    assert train(settings, out=told).step == 4
    left = [line for line in told.getvalue().splitlines() if line.startswith("left out: ")]
    assert len(left) == 1 and "200 ids, the policy's context holds 128" in left[0]
    write_samples(tmp_path / "long.samples", evenly[-1:], force=True)
    with pytest.raises(SampleError, match="200 ids, the policy's context holds 128"):
        train(config(home, tmp_path / "none", data=data, engine=engine, steps=4))
    assert list((tmp_path / "none").glob("[a-z]*")) == [], "a run that never began leaves nothing in the way"


def test_what_a_loss_cannot_be_computed_of_is_told_before_the_first_step(home: Path, tmp_path: Path):
    generator = np.random.default_rng(5)
    samples = [sample(generator) for _ in range(8)]
    wrong = replace(samples[7], weights=np.full(len(samples[7]), np.nan, np.float32))
    weights_folder(tmp_path / "small", vocabulary=WORDS // 2)
    (tmp_path / "small" / "tokenizer.json").write_bytes((home / "base" / "tokenizer.json").read_bytes())
    taught: dict[str, Any] = {"algorithm": {"name": "opd"}, "teacher": {"weights": str(home / "base")}}
    for last, more, said in (
        (wrong, {}, "the weight at position"),
        (samples[7], taught | {"teacher": None}, "needs a teacher"),
        (samples[7], taught | {"teacher": {"weights": str(tmp_path / "small")}}, "the teacher small reads 128 of"),
    ):
        write_samples(tmp_path / "data.samples", [*samples[:7], last], force=True)
        data = {"files": [str(tmp_path / "data.samples")], "shuffle": False}
        with pytest.raises(UsageError, match=said):
            train(config(home, tmp_path / "out", data=data, **more))
        assert list((tmp_path / "out").glob("[a-z]*")) == []
    unknown = [replace(each, logprobs=np.where(each.drawn, np.nan, 0).astype(np.float32)) for each in samples]
    write_samples(tmp_path / "data.samples", unknown, force=True)
    with pytest.raises(UsageError, match="has no log-probabilities"):
        train(config(home, tmp_path / "out", data={"files": [str(tmp_path / "data.samples")]}, **taught))


ENTRY = """
import sys
from pathlib import Path
from silva.train.config import TrainConfig
from silva.train.launch import train
settings = TrainConfig.model_validate_json(sys.argv[1])
print(train(settings, resume=sys.argv[2] == "resume", out=sys.stderr).status, flush=True)
"""


def start(settings: TrainConfig, resume: bool, **more: Any) -> subprocess.Popen[str]:
    arguments = [sys.executable, "-c", ENTRY, settings.model_dump_json(), "resume" if resume else "begin"]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)


def test_a_run_killed_again_and_again_ends_with_the_losses_of_an_undisturbed_one(
    home: Path, tmp_path: Path, undisturbed: list[tuple[int, float]]
):
    output = tmp_path / "out"
    settings = config(home, output)
    for step in (4, 9):
        child = start(settings, resume=(output / "config.yaml").exists())
        deadline = time.monotonic() + 120
        while not any(number >= step for number, _ in losses(output)) and time.monotonic() < deadline:
            assert child.poll() is None, child.communicate()
            time.sleep(0.002)
        child.send_signal(signal.SIGKILL)
        child.communicate()
    out, told = start(settings, resume=True).communicate(timeout=120)
    assert out == "finished\n", told
    assert losses(output) == undisturbed
    mine, theirs = (
        (folder / "policy" / "adapter_model.safetensors").read_bytes() for folder in (output, home / "undisturbed")
    )
    assert mine == theirs


def test_a_run_told_to_stop_goes_on_and_may_be_made_longer(
    home: Path, tmp_path: Path, undisturbed: list[tuple[int, float]]
):
    output = tmp_path / "out"
    asked = iter([False] * 5 + [True])
    result = train(config(home, output), stopping=lambda: next(asked))
    assert (result.status, result.step) == ("interrupted", 5)
    assert result.checkpoint is not None and result.checkpoint.name == "step-000005"
    assert train(config(home, output), resume=True).status == "finished"
    assert losses(output) == undisturbed
    assert train(config(home, output, steps=15), resume=True).step == 15
    assert losses(output)[:12] == undisturbed
    assert len(losses(output)) == 15


def test_resuming_with_another_setup_is_refused_by_the_name_of_what_changed(home: Path, tmp_path: Path):
    output = tmp_path / "out"
    train(config(home, output, steps=4))
    before = losses(output)
    with pytest.raises(UsageError, match="batch was another"):
        train(config(home, output, batch=3), resume=True)
    with pytest.raises(UsageError, match="holds a run already"):
        train(config(home, output))
    with pytest.raises(UsageError, match="no run to resume"):
        train(config(home, tmp_path / "other"), resume=True)
    assert losses(output) == before


def test_two_trainers_do_not_share_a_folder(home: Path, tmp_path: Path):
    output = tmp_path / "out"
    child = start(config(home, output, steps=100_000), resume=False)
    try:
        deadline = time.monotonic() + 120
        while not losses(output) and time.monotonic() < deadline:
            assert child.poll() is None, child.communicate()
            time.sleep(0.05)
        with pytest.raises(UsageError, match="another run trains into it"):
            train(config(home, output), resume=True)
    finally:
        child.kill()
        child.communicate()


def test_a_rate_that_diverges_stops_keeps_the_last_good_checkpoint_and_can_be_mended(home: Path, tmp_path: Path):
    output = tmp_path / "out"
    gentle = {"learning_rate": 1e-2}
    assert train(config(home, output, optimiser=gentle, steps=8)).status == "finished"
    wild = config(home, output, optimiser={"learning_rate": 1e3, "clip": None}, steps=40, checkpoints={"every": 1})
    result = train(wild, resume=True)
    assert result.status == "diverged" and result.reason
    assert result.policy is None and result.checkpoint is not None
    good = int(result.checkpoint.name.removeprefix("step-"))
    assert good < result.step
    assert list((output / "checkpoints").glob("diverged-step-*"))
    mended = train(config(home, output, optimiser={"learning_rate": 1e-3}, steps=good + 4), resume=True)
    assert mended.status == "finished"


def test_a_run_that_diverges_before_any_checkpoint_says_so(home: Path, tmp_path: Path):
    output = tmp_path / "out"
    settings = config(home, output, optimiser={"learning_rate": 1e6, "clip": None}, checkpoints={"every": 100})
    result = train(settings)
    assert result.status == "diverged" and result.checkpoint is None
    assert not (output / "policy").exists()


def test_a_full_disk_ends_the_run_with_one_line_and_the_last_good_checkpoint(home: Path, tmp_path: Path):
    output = tmp_path / "out"
    assert train(config(home, output, steps=4)).status == "finished"
    (good,) = (output / "checkpoints").iterdir()

    def small() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))

    child = start(config(home, output), resume=True, preexec_fn=small)
    out, told = child.communicate(timeout=120)
    assert out == ""
    assert told.splitlines()[-1].startswith("silva.errors.StoreError: step-000008 cannot be written, the disk is full")
    assert [path.name for path in (output / "checkpoints").iterdir()] == [good.name]
    assert train(config(home, output), resume=True).status == "finished"


def command(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    from silva.cli.train_run import app

    try:
        code = typer.main.get_command(app).main(arguments, standalone_mode=False)
        shown = ""
    except SilvaError as error:
        code, shown = error.code, str(error)
    told = capsys.readouterr()
    return int(code or 0), told.out, told.err + shown


def test_the_command_plans_trains_and_ends_with_its_exit_code(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    handlers = [(number, signal.getsignal(number)) for number in (signal.SIGINT, signal.SIGTERM)]
    try:
        file = tmp_path / "c.json"
        file.write_text(config(home, tmp_path / "out", curves={"lake": str(tmp_path / "lake")}).model_dump_json())
        code, out, _ = command([str(file), "steps=6", "--dry-run", "--json"], capsys)
        planned = json.loads(out)["plan"]
        assert code == 0 and planned["steps"] == 6 and planned["groups"] == 16 and planned["held_out"] == 3
        assert not (tmp_path / "out").exists()
        code, out, told = command([str(file), "steps=6", "--json"], capsys)
        assert code == 0 and json.loads(out)["status"] == "finished"
        assert "step 6/6  loss" in told
        with Lake.open(tmp_path / "lake", mode="read") as lake:
            run = lake.run("tiny")
        assert run is not None and run.status == "finished" and run.lineage.parents == ("file:sft.samples",)
        assert [point["step"] for point in run.summary["curve"]] == [0, 1, 2, 3, 4, 5, 6]
        code, out, told = command(
            [str(file), "--resume", "steps=30", "optimiser.learning_rate=1e7", "optimiser.clip=null"], capsys
        )
        assert code == Exit.INCOMPLETE and out == ""
        assert "diverged at step" in told and "the last good checkpoint is" in told
        code, _, told = command([str(file), "steps=6", "optimiser.learning_rte=1"], capsys)
        assert code == Exit.USAGE and "did you mean 'learning_rate'" in told
        code, _, told = command([str(file), "output=/proc/nothing/here"], capsys)
        assert code == Exit.USAGE and "cannot be written" in told
    finally:
        for number, handler in handlers:
            signal.signal(number, handler)


def test_tensorboard_reads_the_curves(home: Path, tmp_path: Path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    output = tmp_path / "out"
    train(config(home, output, steps=3, curves={"tensorboard": True}))
    read = EventAccumulator(str(output / "tensorboard")).Reload()
    assert [(event.step, event.value) for event in read.Scalars("loss")] == [
        (step, pytest.approx(value)) for step, value in losses(output)
    ]


def test_a_tracker_that_is_not_installed_is_one_line(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(SilvaError, match="pip install") as refused:
        train(config(home, tmp_path / "out", curves={"wandb": "project", "lake": str(tmp_path / "lake")}))
    assert refused.value.code == Exit.MISSING
    with Lake.open(tmp_path / "lake", mode="read") as lake:
        run = lake.run("tiny")
    assert run is not None and run.status == "interrupted", "it no longer runs"

"""Real processes that train a tiny llama together: their curve is the single process's, whatever becomes of them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny_llama import group, pair, sample, weights_folder

from silva.errors import Exit, MissingError, SilvaError, UsageError
from silva.train.config import TrainConfig
from silva.train.curves import read_curve
from silva.train.sample_file import write_samples

pytestmark = pytest.mark.slow

torch = pytest.importorskip("torch")
pytest.importorskip("peft")

CLOSE = 1e-4


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("home")
    weights_folder(home / "base")
    generator = np.random.default_rng(0)
    write_samples(home / "sft.samples", [sample(generator) for _ in range(16)])
    write_samples(home / "held.samples", [sample(generator) for _ in range(1)])
    write_samples(home / "dpo.samples", [side for _ in range(6) for side in pair(generator)])
    write_samples(home / "grpo.samples", [one for task in range(6) for one in group(generator, f"t{task}")])
    return home


def config(home: Path, output: Path, processes: int = 2, **more: Any) -> TrainConfig:
    values: dict[str, Any] = {
        "run": "tiny",
        "output": str(output),
        "policy": {"weights": str(home / "base"), "dtype": "float32", "device": "cpu", "adapter": {"rank": 4}},
        "data": {"files": [str(home / "sft.samples")], "held_out": [str(home / "held.samples")]},
        "optimiser": {"learning_rate": 1e-2, "warmup": 2, "schedule": "cosine"},
        "steps": 8,
        "batch": 5,
        "held_out_every": 4,
        "checkpoints": {"every": 2},
        "micro_tokens": 60,
        "threads": 1,
        "scale": {"processes": processes},
    }
    return TrainConfig.model_validate(values | more)


def full(home: Path, **more: Any) -> dict[str, Any]:
    return {"weights": str(home / "base"), "dtype": "float32", "device": "cpu", "method": "full"} | more


def train(settings: TrainConfig, **said: Any):
    from silva.train.launch import train

    return train(settings, **said)


def curve(output: Path) -> dict[int, dict[str, float]]:
    left = {"tokens_per_second", "tokens"}  # how many are read depends on what was computed together
    return {
        point.step: {name: value for name, value in point.values.items() if name not in left}
        for point in read_curve(output)
    }


def assert_alike(mine: dict[int, dict[str, float]], other: dict[int, dict[str, float]], close: float = CLOSE) -> None:
    assert mine.keys() == other.keys()
    for step, values in mine.items():
        assert values == pytest.approx(other[step], rel=close, abs=close), step


def weights(output: Path) -> dict[str, np.ndarray]:
    from safetensors.torch import load_file

    (file,) = (output / "policy").glob("*.safetensors")
    return {name: value.float().numpy() for name, value in load_file(file).items()}


def assert_same_weights(mine: Path, other: Path, close: float) -> None:
    found, expected = weights(mine), weights(other)
    assert found.keys() == expected.keys()
    for name, value in found.items():
        np.testing.assert_allclose(value, expected[name], atol=close, err_msg=name)


@pytest.fixture(scope="module")
def single(home: Path) -> dict[int, dict[str, float]]:
    assert train(config(home, home / "single", 1)).status == "finished"
    return curve(home / "single")


def test_two_processes_have_the_single_processs_curve_and_one_of_them_writes(
    home: Path, single: dict[int, dict[str, float]]
):
    output = home / "two"
    result = train(config(home, output))
    assert (result.status, result.step) == ("finished", 8)
    assert result.policy == output / "policy" and result.checkpoint == output / "checkpoints" / "step-000008"
    assert single[8]["loss"] < single[1]["loss"] - 0.3, "nothing was learnt: the comparison would say nothing"
    assert_alike(curve(output), single)
    assert_same_weights(output, home / "single", CLOSE)
    assert sorted(path.name for path in (output / "checkpoints").iterdir()) == ["step-000006", "step-000008"]


@pytest.mark.parametrize("name", [pytest.param("dpo", marks=pytest.mark.weekly), "grpo"])
def test_pairs_and_groups_are_shared_too(home: Path, tmp_path: Path, name: str):
    data: dict[str, Any] = {"files": [str(home / f"{name}.samples")], "pairs": "alternating"}
    said: dict[str, Any] = {"data": data, "algorithm": {"name": name}, "batch": 3, "steps": 4}
    if name == "grpo":
        said["algorithm"]["parameters"] = {"kl": 0.05}
    for processes in (1, 2):
        train(config(home, tmp_path / str(processes), processes, **said))
    assert_alike(curve(tmp_path / "2"), curve(tmp_path / "1"), 5e-4)


def test_weights_in_parts_have_the_single_processs_curve_and_whole_checkpoints(home: Path, tmp_path: Path):
    said: dict[str, Any] = {"policy": full(home), "optimiser": {"learning_rate": 2e-3}}
    parts: dict[str, Any] = {"scale": {"processes": 2, "shard": True}, **said}
    output = tmp_path / "parts"
    train(config(home, tmp_path / "one", 1, **said))
    stopped = train(config(home, output, **parts), stopping=lambda: 2 in curve(output))
    assert stopped.status == "interrupted" and 2 <= stopped.step < 8
    assert train(config(home, output, **parts), resume=True).status == "finished"
    assert_alike(curve(output), curve(tmp_path / "one"))
    assert_same_weights(output, tmp_path / "one", 1e-3)
    longer = train(config(home, output, 1, steps=9, **said), resume=True)
    assert (longer.status, longer.step) == ("finished", 9)


@pytest.mark.weekly
def test_weights_in_parts_are_computed_in_bfloat16_and_summed_in_float32(home: Path, tmp_path: Path):
    said: dict[str, Any] = {"policy": full(home, dtype="bfloat16"), "optimiser": {"learning_rate": 2e-3}}
    train(config(home, tmp_path / "one", 1, **said))
    train(config(home, tmp_path / "parts", scale={"processes": 2, "shard": True}, **said))
    assert_alike(curve(tmp_path / "parts"), curve(tmp_path / "one"), 2e-2)
    assert_same_weights(tmp_path / "parts", tmp_path / "one", 2e-2)


@pytest.mark.weekly
def test_weights_in_parts_know_the_policy_as_it_began(home: Path, tmp_path: Path):
    data: dict[str, Any] = {"files": [str(home / "dpo.samples")], "pairs": "alternating"}
    said: dict[str, Any] = {"data": data, "algorithm": {"name": "dpo"}, "batch": 3, "steps": 4, "policy": full(home)}
    said["optimiser"] = {"learning_rate": 1e-3}
    train(config(home, tmp_path / "one", 1, **said))
    train(config(home, tmp_path / "parts", scale={"processes": 2, "shard": True}, **said))
    assert curve(tmp_path / "one")[4]["loss"] < curve(tmp_path / "one")[1]["loss"]
    assert_alike(curve(tmp_path / "parts"), curve(tmp_path / "one"), 5e-4)


def test_a_run_goes_on_with_another_number_of_processes(home: Path, tmp_path: Path, single: dict):
    output = tmp_path / "out"
    asked = iter([False, False, True])
    stopped = train(config(home, output, 1), stopping=lambda: next(asked))
    assert (stopped.status, stopped.step) == ("interrupted", 2)
    stopped = train(config(home, output, 3), resume=True, stopping=lambda: 4 in curve(output))
    assert stopped.status == "interrupted" and 4 <= stopped.step < 8
    assert train(config(home, output, 1), resume=True).status == "finished"
    assert_alike(curve(output), single)


ENTRY = """
import sys
from silva.cli.train_run import app
from silva.errors import SilvaError
import typer
try:
    code = typer.main.get_command(app).main(sys.argv[1:], standalone_mode=False)
except SilvaError as error:
    print(error, file=sys.stderr)
    code = error.code
sys.exit(int(code or 0))
"""


def command(settings: TrainConfig, folder: Path, *more: str) -> subprocess.Popen[str]:
    file = folder / "c.json"
    file.write_text(settings.model_dump_json(exclude_unset=True))
    arguments = [sys.executable, "-c", ENTRY, str(file), *more]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def ranks_of(pid: int) -> list[int]:
    """Processes that the agent below a process has started, by rank."""
    found: list[tuple[int, int]] = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            said = (entry / "cmdline").read_bytes()
            environment = dict(
                part.split(b"=", 1) for part in (entry / "environ").read_bytes().split(b"\0") if b"=" in part
            )
        except OSError:
            continue
        if b"silva.train.rank" in said and _below(int(entry.name), pid):
            found.append((int(environment[b"RANK"]), int(entry.name)))
    return [child for _, child in sorted(found)]


def _below(pid: int, ancestor: int) -> bool:
    while pid > 1:
        if pid == ancestor:
            return True
        try:
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            return False
    return False


def wait_for(is_time: Callable[[], bool], child: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 200
    while not is_time():
        assert child.poll() is None, child.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize("victims", [(1,), pytest.param((0, 1, 0), marks=pytest.mark.weekly)])
def test_a_killed_rank_ends_the_run_with_one_line_and_resume_goes_on(
    home: Path, tmp_path: Path, victims: tuple[int, ...]
):
    output = tmp_path / "out"
    for victim in victims:
        child = command(config(home, output, steps=100_000), tmp_path, *(["--resume"] if output.exists() else []))
        last = max(curve(output), default=0) if output.exists() else 0
        wait_for(lambda last=last: output.exists() and max(curve(output), default=0) > last + 3, child)
        ranks = ranks_of(child.pid)
        assert len(ranks) == 2
        os.kill(ranks[victim], signal.SIGKILL)
        _, told = child.communicate(timeout=120)
        assert child.returncode == Exit.INCOMPLETE, told
        line = told.splitlines()[-1]
        assert f"rank {victim} was ended by SIGKILL" in line and "--resume" in line and "step-" in line
        assert sum("rank" in each for each in told.splitlines()) == 1, told
        assert not any(Path(f"/proc/{rank}").exists() for rank in ranks), "a rank was left behind"
    last = max(int(path.name.removeprefix("step-")) for path in (output / "checkpoints").glob("step-*"))
    assert train(config(home, output, steps=last + 2), resume=True).status == "finished"
    assert sorted(curve(output)) == list(range(last + 3))


def test_ctrl_c_ends_after_a_checkpoint_twice_at_once(home: Path, tmp_path: Path):
    output = tmp_path / "out"
    child = command(config(home, output, steps=100_000, checkpoints={"every": 1000}), tmp_path)
    wait_for(lambda: output.exists() and 2 in curve(output), child)
    child.send_signal(signal.SIGINT)
    _, told = child.communicate(timeout=120)
    assert child.returncode == Exit.INCOMPLETE
    assert "stopping after this step" in told and "it was told to stop" in told.splitlines()[-1]
    (kept,) = (output / "checkpoints").iterdir()
    child = command(config(home, output, steps=100_000, checkpoints={"every": 1000}), tmp_path, "--resume")
    step = int(kept.name.removeprefix("step-"))
    wait_for(lambda: max(curve(output)) > step + 2, child)
    ranks = ranks_of(child.pid)
    child.kill()  # nobody is left to answer for the run
    child.communicate()
    deadline = time.monotonic() + 30
    while any(Path(f"/proc/{rank}").exists() for rank in ranks) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not any(Path(f"/proc/{rank}").exists() for rank in ranks)
    assert train(config(home, output, steps=step + 1), resume=True).status == "finished"


def test_the_command_says_progress_once_and_where_the_policy_is(home: Path, tmp_path: Path):
    child = command(config(home, tmp_path / "out", steps=3), tmp_path)
    out, told = child.communicate(timeout=120)
    assert child.returncode == 0, told
    assert out == f"{tmp_path / 'out' / 'policy'}\n"
    assert sum(line.startswith("step 3/3") for line in told.splitlines()) == 1
    child = command(config(home, tmp_path / "out", steps=3), tmp_path)
    _, told = child.communicate(timeout=120)
    assert child.returncode == Exit.USAGE
    assert "holds a run already" in told and len(told.splitlines()) == 1


@pytest.mark.weekly
def test_a_launcher_of_ones_own_starts_the_same_command(home: Path, tmp_path: Path, single: dict):
    file = tmp_path / "c.json"
    file.write_text(config(home, tmp_path / "out", 1).model_dump_json(exclude_unset=True))
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command += ["-m", "silva", "train", "run", str(file)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == f"{tmp_path / 'out' / 'policy'}\n"
    assert_alike(curve(tmp_path / "out"), single)


@pytest.mark.weekly  # one process stops so in test_trainer.py, and all stop together at Ctrl-C above
def test_a_run_that_diverges_is_stopped_by_all(home: Path, tmp_path: Path):
    output = tmp_path / "out"
    assert train(config(home, output, steps=4)).status == "finished"
    wild: dict[str, Any] = {"learning_rate": 5.0, "clip": None}
    result = train(config(home, output, optimiser=wild, steps=60, checkpoints={"every": 1}), resume=True)
    assert result.status == "diverged" and result.reason
    assert result.policy is None and result.checkpoint is not None and result.checkpoint.exists()


@pytest.mark.skipif(torch.cuda.is_available(), reason="where there is no GPU")
@pytest.mark.parametrize("processes", [1, pytest.param(2, marks=pytest.mark.weekly)])
def test_a_gpu_that_is_not_there_and_nccl_without_one_are_one_line(home: Path, tmp_path: Path, processes: int):
    asked = full(home, device="cuda")
    built = torch.backends.cuda.is_built()
    with pytest.raises(SilvaError, match=r"policy\.device: cuda") as refused:
        train(config(home, tmp_path / "out", processes, policy=asked))
    assert refused.value.code == (Exit.USAGE if built else Exit.MISSING)
    assert isinstance(refused.value, MissingError) or built or processes > 1
    if processes > 1:
        with pytest.raises(SilvaError, match=r"scale\.backend: nccl joins GPUs") as refused:
            train(config(home, tmp_path / "other", scale={"processes": 2, "backend": "nccl"}))
        assert refused.value.code == Exit.USAGE


def test_too_many_processes_and_faults_are_one_line(home: Path, tmp_path: Path):
    with pytest.raises(SilvaError, match="3 processes, but a step of batch 2") as refused:
        train(config(home, tmp_path / "many", 3, batch=2))
    assert refused.value.code == Exit.USAGE
    with pytest.raises(UsageError, match=r"one process has nobody"):
        train(config(home, tmp_path / "alone", 1, policy=full(home), scale={"shard": True}))
    foreign = sample(np.random.default_rng(5))
    foreign.ids[0] = 1000
    write_samples(tmp_path / "foreign.samples", [foreign] * 4)
    with pytest.raises(SilvaError, match="another tokenizer") as refused:
        train(config(home, tmp_path / "foreign", data={"files": [str(tmp_path / "foreign.samples")]}))
    assert refused.value.code == Exit.USAGE


@pytest.mark.weekly  # that one which is killed ends all is seen above
def test_a_process_that_others_wait_for_in_vain_is_given_up(home: Path, tmp_path: Path):
    output = tmp_path / "out"
    child = command(config(home, output, steps=100_000, scale={"processes": 2, "patience": 15}), tmp_path)
    wait_for(lambda: output.exists() and 2 in curve(output), child)
    os.kill(ranks_of(child.pid)[1], signal.SIGSTOP)
    _, told = child.communicate(timeout=150)
    assert child.returncode == Exit.INCOMPLETE
    assert "another process does not answer" in told.splitlines()[-1]


@pytest.mark.weekly
def test_dropout_is_drawn_otherwise_in_each_process_and_alike_after_a_resume(home: Path, tmp_path: Path):
    policy = {
        "weights": str(home / "base"),
        "dtype": "float32",
        "device": "cpu",
        "adapter": {"rank": 4, "dropout": 0.3},
    }
    straight, output = tmp_path / "straight", tmp_path / "out"
    train(config(home, straight, policy=policy))
    shutil.copytree(straight, output)
    shutil.rmtree(output / "checkpoints" / "step-000008")
    assert train(config(home, output, policy=policy), resume=True).status == "finished"
    assert json.dumps(curve(output)) == json.dumps(curve(straight))


def test_a_gpu_whose_memory_is_full_is_one_line(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from silva.train.engines import target_logprobs

    def full_memory(*_: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")

    monkeypatch.setattr(target_logprobs, "token_logprobs", full_memory)
    with pytest.raises(SilvaError, match=r"memory is full at step 1: lower micro_tokens \(60\)") as refused:
        train(config(home, tmp_path / "out", 1, data={"files": [str(home / "sft.samples")]}))
    assert refused.value.code == Exit.INCOMPLETE


@pytest.mark.skipif(not torch.cuda.is_available(), reason="on a GPU")
@pytest.mark.parametrize("shard", [False, True])
def test_gpus_have_the_processors_curve(home: Path, tmp_path: Path, shard: bool):
    count = torch.cuda.device_count()
    said: dict[str, Any] = {"optimiser": {"learning_rate": 1e-3}, "batch": max(5, count)}
    train(config(home, tmp_path / "cpu", 1, policy=full(home), **said))
    scale = {"processes": count, "shard": shard and count > 1}
    train(config(home, tmp_path / "gpu", policy=full(home, device="cuda"), scale=scale, **said))
    assert_alike(curve(tmp_path / "gpu"), curve(tmp_path / "cpu"), 5e-3)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="on a GPU")
def test_a_gpu_computes_in_bfloat16_by_itself_and_its_state_goes_on(home: Path, tmp_path: Path):
    policy = {"weights": str(home / "base"), "adapter": {"rank": 4, "dropout": 0.2}}
    straight, output = tmp_path / "straight", tmp_path / "out"
    train(config(home, straight, 1, policy=policy))
    asked = iter([False] * 3 + [True])
    train(config(home, output, 1, policy=policy), stopping=lambda: next(asked))
    said = json.loads((output / "checkpoints" / "step-000003" / "engine" / "engine.json").read_text())
    assert said["dtype"] == "torch.bfloat16"
    train(config(home, output, 1, policy=policy), resume=True)
    assert_alike(curve(output), curve(straight), 1e-2)

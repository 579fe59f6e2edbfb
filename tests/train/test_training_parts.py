"""What a training run stands on and needs no torch: its config, schedule, watch, checkpoints, curves and sources."""

from __future__ import annotations

import json
import math
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from tiny_llama import sample

from silva.cli.config import load
from silva.errors import StoreError, UsageError
from silva.lake import Lake
from silva.train.checkpoint import Checkpoints, write_folder
from silva.train.config import DataConfig, DivergenceConfig, OptimiserConfig, TrainConfig
from silva.train.curves import CurveFile, LakeCurve, Point, read_curve
from silva.train.divergence import DivergenceWatch
from silva.train.online.timeline import Timeline, read_timeline
from silva.train.output import keep_config
from silva.train.sample_file import write_samples
from silva.train.schedule import learning_rate
from silva.train.sources import Epochs, prepare

MINIMAL = {"output": "out", "data": {"files": ["a.samples"]}}


def config(tmp_path: Path, **more: object) -> TrainConfig:
    return TrainConfig.model_validate({**MINIMAL, "output": tmp_path / "out", **more})


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("optimiser.learning_rte=1", "did you mean 'learning_rate'"),
        ("policy.adapter.targets=[]", "name at least one projection"),
        ("policy.adapter.targets=[lm_head]", "policy.adapter.targets"),
        ("data.runs=[r]", "files of samples, or a lake and runs"),
        ("optimiser.warmup=100", "leave none of 100"),
        ("policy.scratch.tokenizer=t", "method: full"),
        ("run=a/b", "letters, digits"),
        ("optimiser.learning_rate=.nan", "learning_rate"),
        ("checkpoints.keep=1", "checkpoints.keep"),
    ],
)
def test_a_wrong_config_is_one_line(tmp_path: Path, override: str, said: str):
    file = tmp_path / "c.yaml"
    file.write_text(json.dumps(MINIMAL))
    with pytest.raises(UsageError) as refused:
        load(TrainConfig, file, [override])
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_pairs_that_alternate_lose_no_side_to_a_least_reward(tmp_path: Path):
    data = {"files": ["a.samples"], "pairs": "alternating"}
    assert config(tmp_path, data=data).data.pairs == "alternating"
    with pytest.raises(ValidationError, match="least_reward: pairs that alternate are taken as they stand"):
        config(tmp_path, data={**data, "least_reward": 0.5})


def test_data_without_a_pair_says_what_a_pair_takes(tmp_path: Path):
    generator = np.random.default_rng(0)
    alone = [sample(generator, task=task, reward=1.0) for task in ("a", "b")]
    write_samples(tmp_path / "alone.samples", alone)
    dpo: Any = SimpleNamespace(name="dpo", needs=frozenset({"pairs"}))
    with pytest.raises(
        UsageError,
        match=r"2 samples \(0 below the least reward\) hold no pair for dpo: it takes two tries of one",
    ):
        prepare(DataConfig(files=(tmp_path / "alone.samples",)), dpo)


@given(
    steps=st.integers(1, 200),
    warmup=st.integers(0, 50),
    schedule=st.sampled_from(["constant", "linear", "cosine"]),
    floor=st.floats(0, 1),
)
def test_the_learning_rate_rises_then_never_rises_again(steps: int, warmup: int, schedule: str, floor: float):
    settings = OptimiserConfig.model_validate(
        {"learning_rate": 2.0, "warmup": warmup, "schedule": schedule, "floor": floor}
    )
    rates = [learning_rate(step, steps, settings) for step in range(steps)]
    top = min(warmup, steps)
    assert all(0 <= rate <= 2.0 + 1e-12 for rate in rates)
    assert rates[0] > 0 or floor == 0
    assert all(a < b for a, b in pairwise(rates[:top]))
    assert all(a >= b - 1e-12 for a, b in pairwise(rates[top:]))
    if schedule == "constant" and steps > warmup:
        assert rates[-1] == 2.0
    if schedule != "constant" and steps > warmup + 1:
        assert rates[-1] == pytest.approx(2.0 * floor)


@pytest.mark.parametrize("loss", [math.nan, math.inf, -math.inf])
def test_a_loss_that_is_no_number_is_divergence_at_once(loss: float):
    assert "loss" in DivergenceWatch(DivergenceConfig()).of_loss(loss)
    assert "gradient" in DivergenceWatch(DivergenceConfig()).of_gradient(loss)


def test_an_exploding_loss_is_told_from_a_falling_and_from_a_noisy_one():
    falling = DivergenceWatch(DivergenceConfig())
    assert not any(falling.of_loss(8.0 / (1 + step)) for step in range(100))
    noisy = DivergenceWatch(DivergenceConfig())
    assert not any(noisy.of_loss(float(x)) for x in np.random.default_rng(0).normal(0, 1, 500))
    watch = DivergenceWatch(DivergenceConfig())
    assert not any(watch.of_loss(2.0) for _ in range(10))
    assert "its median over the last 10 steps 2" in watch.of_loss(12.0)
    assert len(watch.losses) == 10, "the bad loss is not what later ones are judged by"


def test_a_resumed_watch_judges_as_before():
    watch = DivergenceWatch(DivergenceConfig(window=5))
    for loss in (1.0, 1.1, 0.9, 1.0, 1.0, 1.0):
        watch.of_loss(loss)
    again = DivergenceWatch(DivergenceConfig(window=5), watch.losses)
    assert len(again.losses) == 5
    assert again.of_loss(50.0) and watch.of_loss(50.0)


def put(text: str):
    def fill(folder: Path) -> None:
        (folder / "a").mkdir()
        (folder / "a" / "state").write_text(text)

    return fill


def test_checkpoints_keep_the_last_and_set_bad_ones_aside(tmp_path: Path):
    checkpoints = Checkpoints(tmp_path, keep=2)
    assert checkpoints.latest() is None
    for step in (5, 10, 15):
        checkpoints.write(step, put(str(step)))
    assert [step for step, _ in checkpoints.all()] == [10, 15]
    checkpoints.set_aside(15)
    latest = checkpoints.latest()
    assert latest is not None and (latest / "a" / "state").read_text() == "10"
    assert (tmp_path / "diverged-step-000015" / "a" / "state").read_text() == "15"


def test_a_checkpoint_that_cannot_be_written_leaves_the_last_good_one(tmp_path: Path):
    checkpoints = Checkpoints(tmp_path, keep=2)
    checkpoints.write(5, put("good"))

    def full(folder: Path) -> None:
        (folder / "half").write_text("half")
        raise OSError(28, "No space left on device")

    for step in (5, 10):
        with pytest.raises(StoreError) as refused:
            checkpoints.write(step, full)
        assert "the disk is full" in str(refused.value) and "--resume" in str(refused.value)
    assert [path.name for path in tmp_path.iterdir()] == ["step-000005"]
    assert (tmp_path / "step-000005" / "a" / "state").read_text() == "good"


def test_drafts_of_a_killed_process_are_cleared_away(tmp_path: Path):
    (tmp_path / ".unfinished-step-000010-1").mkdir()
    assert Checkpoints(tmp_path, keep=2).latest() is None
    assert not list(tmp_path.iterdir())
    (tmp_path / ".unfinished-policy-1-old").mkdir()
    write_folder(tmp_path / "policy", put("new"))
    assert [path.name for path in tmp_path.iterdir()] == ["policy"]


def test_a_folder_is_replaced_whole(tmp_path: Path):
    write_folder(tmp_path / "policy", put("old"))
    write_folder(tmp_path / "policy", put("new"))
    assert (tmp_path / "policy" / "a" / "state").read_text() == "new"
    assert [path.name for path in tmp_path.iterdir()] == ["policy"]


def test_a_curve_is_cut_at_the_checkpoint_a_run_resumes_from(tmp_path: Path):
    curve = CurveFile(tmp_path, -1)
    for step in range(1, 6):
        curve.write(Point(step=step, values={"loss": math.nan if step == 2 else float(step)}))
    curve.close()
    with (tmp_path / "curves.jsonl").open("a") as file:
        file.write('{"step": 6, "lo')
    assert [point.step for point in read_curve(tmp_path)] == [1, 2, 3, 4, 5]
    again = CurveFile(tmp_path, after=3)
    again.write(Point(step=4, values={"loss": 40.0}))
    again.close()
    points = read_curve(tmp_path)
    assert [point.step for point in points] == [1, 2, 3, 4]
    assert points[-1].values["loss"] == 40.0 and math.isnan(points[1].values["loss"])


@contextmanager
def full_disk() -> Iterator[None]:
    """No file can grow past its first bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("what", ["curves.jsonl", "timeline.jsonl", "config.yaml"])
def test_a_disk_that_is_full_where_no_checkpoint_is_written_is_one_line_too(tmp_path: Path, what: str):
    curve, timeline = CurveFile(tmp_path, -1), Timeline(tmp_path)
    write: dict[str, list[Callable[[], object]]] = {
        "curves.jsonl": [lambda: curve.write(Point(step=1, values={"loss": 0.5})), curve.close],
        "timeline.jsonl": [lambda: timeline.add("wait", 0.0), timeline.close],
        "config.yaml": [lambda: keep_config(tmp_path, {"run": "learns"})],
    }
    for each in write[what]:
        with full_disk(), pytest.raises(StoreError, match=f"^{what} cannot be written, the disk is full: free space"):
            each()
    assert not read_curve(tmp_path) and not read_timeline(tmp_path)


@pytest.mark.slow
def test_a_run_stands_in_the_lake_with_its_curve(tmp_path: Path):
    settings = config(tmp_path, run="learns", steps=1000)
    lake = str(tmp_path / "lake")
    curve = LakeCurve(lake, settings, ("run:expert",))
    with Lake.open(lake, mode="read") as opened:
        begun = opened.run("learns")
    assert begun is not None and begun.status == "running"
    for step in range(1, 1001):
        curve.write(Point(step=step, values={"loss": 1 / step}))
    curve.status = "finished"
    curve.close()
    with Lake.open(lake, mode="read") as opened:
        ended = opened.run("learns")
    assert ended is not None and ended.status == "finished" and ended.command == "train"
    assert ended.lineage.parents == ("run:expert",)
    assert len(ended.summary["curve"]) <= 201
    assert ended.summary["curve"][-1] == {"step": 1000, "loss": 0.001}


@given(count=st.integers(1, 12), position=st.integers(0, 60), size=st.integers(1, 9), seed=st.integers(0, 5))
def test_epochs_go_on_where_they_were_and_show_everything_once_an_epoch(
    count: int, position: int, size: int, seed: int
):
    generator = np.random.default_rng(0)
    groups = [[sample(generator, task=f"t{number}")] for number in range(count)]
    straight = Epochs(groups, seed)
    names = [group[0].task_id for group in straight.take(position + size)]
    sought = Epochs(groups, seed)
    sought.seek(position)
    assert [group[0].task_id for group in sought.take(size)] == names[position:]
    assert sought.position == position + size
    whole = [group[0].task_id for group in Epochs(groups, seed).take(3 * count)]
    for epoch in range(3):
        assert sorted(whole[epoch * count : (epoch + 1) * count]) == sorted(f"t{number}" for number in range(count))

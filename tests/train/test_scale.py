"""What several processes share and agree on, as far as it needs no torch."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from tiny_llama import pair, sample

from silva.errors import Exit, SilvaError, UsageError
from silva.train.config import TrainConfig
from silva.train.engines.engine import StepResult
from silva.train.engines.share import check_enough, cuts, share, together
from silva.train.processes import ScaleConfig
from silva.train.scale.environment import leads, placed
from silva.train.scale.launch import LOG, ended


def names(parts: list[list]) -> list[list[str]]:
    return [[each.trajectory_id for each in part] for part in parts]


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=40), st.integers(1, 12))
def test_a_row_is_cut_so_that_no_other_cut_has_a_cheaper_dearest_part(costs: list[int], parts: int):
    ends = cuts(costs, parts)
    assert len(ends) == parts and ends == sorted(ends) and ends[-1] == len(costs)
    sizes = [stop - start for start, stop in itertools.pairwise([0, *ends])]
    assert sum(size > 0 for size in sizes) == min(parts, len(costs))
    dearest = max(sum(costs[start:stop]) for start, stop in itertools.pairwise([0, *ends]))
    least = {0: 0}  # the cheapest dearest part of the first n, for every number of parts up to the one under way
    for _ in range(parts):
        least = {
            stop: min(max(least[start], sum(costs[start:stop])) for start in least if start <= stop)
            for stop in range(len(costs) + 1)
        }
    assert dearest == least[len(costs)]


@given(st.integers(0, 2**32 - 1), st.integers(1, 20), st.integers(1, 6))
def test_every_sample_with_loss_is_computed_by_one_process(seed: int, count: int, parts: int):
    generator = np.random.default_rng(seed)
    samples = [sample(generator) for _ in range(count)]
    silent = replace(samples[0], mask=np.zeros(len(samples[0]), bool), trajectory_id="silent")
    shares = names(share([*samples, silent], parts))
    assert len(shares) == parts
    assert sorted(itertools.chain(*shares)) == sorted(each.trajectory_id for each in samples)
    assert sum(bool(part) for part in shares) == min(parts, count)


def test_pairs_stay_together_and_so_do_samples_that_begin_alike():
    generator = np.random.default_rng(0)
    pairs = [side for _ in range(6) for side in pair(generator)]
    for part in share(pairs, 4, pairs=True):
        assert len(part) % 2 == 0
        for chosen, rejected in zip(part[::2], part[1::2], strict=True):
            assert np.array_equal(chosen.ids[:6], rejected.ids[:6])
    alike: list = []
    for task in range(4):
        prompt = generator.integers(0, 64, 30)
        for index in range(4):
            each = sample(generator, 40, 31, task=f"t{task}", index=index)
            each.ids[:30] = prompt
            alike.append(each)
    order = generator.permutation(len(alike))
    tasks = [{each.task_id for each in part} for part in share([alike[at] for at in order], 4)]
    assert sorted(next(iter(task)) for task in tasks) == ["t0", "t1", "t2", "t3"]
    assert all(len(task) == 1 for task in tasks)


def test_a_steps_result_is_the_sum_and_the_slowest():
    one = StepResult(loss=0.5, metrics={"nll": 1.0}, samples=2, tokens=10, loss_tokens=4, seconds=1.0)
    two = StepResult(loss=0.25, metrics={"nll": 2.0, "ratio": 1.0}, samples=1, tokens=5, loss_tokens=2, seconds=3.0)
    found = together([one, two])
    assert (found.loss, found.tokens, found.loss_tokens, found.seconds) == (0.75, 15, 6, 3.0)
    assert found.metrics == {"nll": 3.0, "ratio": 1.0}


def test_more_processes_than_a_step_has_samples_are_refused_in_one_line():
    generator = np.random.default_rng(0)
    groups = [[sample(generator) for _ in range(size)] for size in (4, 2, 3)]
    check_enough(groups, 2, 5, pairs=False)
    with pytest.raises(UsageError, match="6 processes, but a step of batch 2 may have no more than 5 samples"):
        check_enough(groups, 2, 6, pairs=False)
    check_enough(groups, 4, 11, pairs=False)
    with pytest.raises(UsageError, match="no more than 2 pairs"):
        check_enough([pair(generator)], 2, 3, pairs=True)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"processes": 0}, "greater than or equal to 1"),
        ({"nodes": 2}, "need a place to meet"),
        ({"nodes": 2, "rendezvous": "host"}, "HOST:PORT"),
        ({"backend": "mpi"}, "gloo"),
        ({"workers": 2}, "Extra inputs"),
    ],
)
def test_a_scale_that_cannot_be_is_refused(wrong: dict[str, object], said: str):
    with pytest.raises(ValidationError, match=said):
        ScaleConfig.model_validate(wrong)


def settings(**more: object) -> TrainConfig:
    return TrainConfig.model_validate({"output": "out", "data": {"files": ["f"]}} | more)


def test_a_run_refuses_what_does_not_go_with_several_processes():
    with pytest.raises(ValidationError, match=r"policy\.method: full"):
        settings(scale={"processes": 2, "shard": True})
    with pytest.raises(ValidationError, match="one process on the processor"):
        settings(scale={"processes": 2}, engine="trl")
    with pytest.raises(ValidationError, match="one process on the processor"):
        settings(policy={"device": "cuda"}, engine="trl")


def test_processes_and_devices_do_not_decide_what_a_resumed_run_must_agree_on():
    plain = settings().decisive()
    assert plain == settings(scale={"processes": 4, "patience": 5}, policy={"device": "cpu"}).decisive()
    assert "scale" not in plain and "device" not in plain["policy"]
    assert plain != settings(seed=1).decisive()


def test_a_place_among_others_is_read_from_the_environment(monkeypatch: pytest.MonkeyPatch):
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    assert not placed() and leads()
    for name, value in (("RANK", "1"), ("WORLD_SIZE", "2"), ("MASTER_ADDR", "localhost")):
        monkeypatch.setenv(name, value)
    assert not placed()
    monkeypatch.setenv("MASTER_PORT", "29500")
    assert placed() and not leads()
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert not placed() and leads()


OWN = {"error": "data: wrong", "code": 2, "lost": False, "waited": False}
LOST = {"error": "rank 0: another process does not answer (closed)", "code": 6, "lost": True, "waited": False}
WAITED = {"error": "rank 0: another process does not answer (timed out)", "code": 6, "lost": True, "waited": True}


def failure(rank: int, code: int, signal: str = "", said: str = "") -> dict[str, Any]:
    return {"rank": rank, "code": code, "signal": signal, "said": said, "at": 0}


@pytest.mark.parametrize(
    ("ranks", "failures", "line", "code", "log"),
    [
        ({1: OWN, 0: LOST}, [failure(0, 6), failure(1, 2)], "^data: wrong$", Exit.USAGE, False),
        ({0: LOST}, [failure(0, 6), failure(1, -9, "SIGKILL")], "rank 1 was ended by SIGKILL", Exit.INCOMPLETE, False),
        (
            {},
            [failure(0, -15, "SIGTERM"), failure(1, -9, "SIGKILL")],
            "rank 1 was ended by SIGKILL",
            Exit.INCOMPLETE,
            False,
        ),
        ({0: WAITED}, [failure(0, 6), failure(1, -9, "SIGKILL")], "rank 0: .*timed out", Exit.INCOMPLETE, False),
        ({}, [failure(0, 143), failure(1, 1, said="KeyError:\n 'x'")], "rank 1: KeyError: 'x'; see", Exit.FAULT, True),
        ({0: LOST}, [failure(0, 6)], "rank 0: another process does not answer", Exit.INCOMPLETE, True),
        ({}, [], "agent ended with -9; see", Exit.INCOMPLETE, True),
    ],
)
def test_of_ranks_that_ended_badly_the_one_that_knows_why_speaks(
    tmp_path: Path, ranks: dict[int, Any], failures: list[Any], line: str, code: Exit, log: bool
):
    folder, output = tmp_path / "ranks", tmp_path / "out"
    (output / "checkpoints" / "step-000004").mkdir(parents=True)
    folder.mkdir()
    for rank, said in ranks.items():
        (folder / f"rank-{rank}.json").write_text(json.dumps(said))
    if failures:
        (folder / "failures.json").write_text(json.dumps(failures))
    (folder / LOG).write_text("more")
    with pytest.raises(SilvaError, match=line) as refused:
        ended(settings(output=str(output)), folder, -9)
    assert refused.value.code == code and "\n" not in str(refused.value)
    assert (output / LOG).exists() == log
    assert ("step-000004" in str(refused.value)) == (ranks.get(1) != OWN)
